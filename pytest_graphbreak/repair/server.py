"""A process that has imported torch and nothing else, and forks one process a run.

Importing torch takes longer than most runs. What a run does stays in its fork:
no run sees the compiled code, the settings or the modules of another.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
import sys


def serve() -> int:
    """Read one order a line; answer each with the pid and then with the exit code."""
    for name in ("torch", "torch._dynamo", "torch._dynamo.convert_frame", "pytest"):
        if importlib.util.find_spec(name) is not None:
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a collection in a fork would write to every page, and so copy it
    for line in iter(sys.stdin.readline, ""):
        paper, out = line.rstrip("\n").split("\t")
        pid = os.fork()
        if pid == 0:
            _work(paper, out)
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    return 0


def _work(paper: str, out: str) -> None:
    """In the fork: its own session and output, then the order; never returns."""
    code = 70
    try:
        os.setsid()
        sink = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        empty = os.open(os.devnull, os.O_RDONLY)
        errors = os.open(f"{out}.err", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for number, file in ((0, empty), (1, sink), (2, errors)):
            os.dup2(file, number)
        from pytest_graphbreak.repair import child

        code = child.work(paper)
    except BaseException as error:
        import traceback

        traceback.print_exception(error)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    sys.exit(serve())
