"""Runs the survey: each model in a process of its own, one line of JSON for each.

    python -m benchmarks.survey.run --out build/survey.jsonl [--part base] [--shard 1/4] [NAME...]

What the file has already is not run again, so the command can be stopped at any
moment and started anew: at most the model that was running is lost.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

CPU: Final = 120
"""Seconds of the processor that one model may take."""
MEMORY: Final = 3 << 30
"""Bytes of data that one model may hold."""
PATIENCE: Final = 10
"""Times as long by the clock: others may have the machine."""


def alone(work: Callable[[], dict[str, Any]], cpu: int = CPU) -> dict[str, Any]:
    """The result of ``work`` in a forked process, or ``{"died": why}``."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receive)
        code = 1
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 5))
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            with os.fdopen(send, "wb") as pipe:
                pipe.write(json.dumps(work()).encode())
            code = 0
        except MemoryError:
            code = 3
        finally:
            os._exit(code)
    os.close(send)
    return _outcome(child, receive, cpu)


def _outcome(child: int, receive: int, cpu: int) -> dict[str, Any]:
    until, parts = time.monotonic() + cpu * PATIENCE, []
    with os.fdopen(receive, "rb", buffering=0) as pipe:
        while True:
            ready, _, _ = select.select([pipe], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                os.kill(child, signal.SIGKILL)
                break
            part = pipe.read(1 << 16)
            if not part:
                break
            parts.append(part)
    _, status = os.waitpid(child, 0)
    if parts and status == 0:
        found: dict[str, Any] = json.loads(b"".join(parts))
        return found
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return {"died": f"more than {cpu} s of CPU" if name in ("SIGXCPU", "SIGKILL") else name}
    return {"died": f"exit code {os.WEXITSTATUS(status)} (memory is limited to {MEMORY >> 30} GB)"}


def done(path: Path) -> list[dict[str, Any]]:
    """What the file has; a last line that was cut off is taken out of it."""
    if not path.exists():
        return []
    text = path.read_bytes()
    whole = text[: text.rfind(b"\n") + 1]
    if whole != text:
        path.write_bytes(whole)
    return [json.loads(line) for line in whole.splitlines()]


def append(path: Path, result: dict[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(result, separators=(",", ":"), ensure_ascii=False) + "\n")


def warm(*, observed: bool = True) -> None:
    """Import once, in the parent, what every model needs."""
    import torch._dynamo
    import transformers.cache_utils
    import transformers.generation.utils
    import transformers.modeling_layers
    import transformers.models.auto.modeling_auto  # noqa: F401

    if observed:
        from pytest_graphbreak import observe

        with observe():
            pass
    torch.set_num_threads(1)


def main(arguments: list[str] | None = None) -> int:
    from benchmarks.survey.architectures import architectures
    from benchmarks.survey.measure import measured

    parser = argparse.ArgumentParser(prog="python -m benchmarks.survey.run")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these classes")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--part", choices=("base", "head"))
    parser.add_argument("--shard", default="1/1", help="which part of how many: 1/4")
    parser.add_argument("--again", action="store_true", help="run anew what was not built")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="then stop")
    asked = parser.parse_args(arguments)
    which, of = map(int, asked.shard.split("/"))
    chosen = architectures(asked.part)
    if asked.names:
        chosen = [each for each in chosen if each.name in asked.names]
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    had = {
        line["model"]
        for line in done(asked.out)
        if not (asked.again and line["status"] == "not built")
    }
    until = time.monotonic() + asked.seconds
    warm()
    for number, each in enumerate(chosen):
        if number % of != which - 1 or each.name in had:
            continue
        if time.monotonic() > until:
            break
        began = time.monotonic()
        result = alone(lambda each=each: measured(each))
        if "died" in result:
            result = {
                "model": each.name,
                "type": each.type,
                "part": each.part,
                "status": "stopped",
                "why": result["died"],
            }
        append(asked.out, result)
        found = result.get("why") or f"{result['graphs']} graphs, {len(result['breaks'])} breaks"
        print(
            f"{each.name:<40} {result['status']:<12} {found[:200]}"
            f"  {time.monotonic() - began:.0f} s"
        )
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
