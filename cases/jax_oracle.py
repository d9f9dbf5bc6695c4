"""The true counts of the cases of JAX, found without the observer.

``python -m cases.jax_oracle [NAME...]`` prints a JSON object: for each case what XLA
itself wrote of its compilations (``--xla_dump_to``: a module that was optimized to
the end is one executable), under which line of the case each was compiled and on
which devices it runs, and, as a second witness, how many compilations JAX logged
(``jax_log_compiles``) less what came from the persistent cache. Each case has a
process of its own. Nothing of pytest_graphbreak is imported, and nothing of JAX
is patched.

The lines come from Python's tracing: each call, line and return of a frame of the
cases looks at how many modules were written since the last. What a thread compiled
while others did has no line of its own: such a case has only its total.
"""

from __future__ import annotations

import json
import linecache
import logging
import os
import re
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

from cases.forked import in_child

OPTIMIZED = re.compile(r"module_\d+\.(.+?)\.\w+_after_optimizations\.txt")
COMPILED = re.compile(r"Finished XLA compilation of (.{1,200}?) in")
CACHE_HIT = re.compile(r"Persistent compilation cache hit for ")


class Dump:
    """What XLA wrote into a folder, and the line that was running."""

    def __init__(self, folder: Path, file: str) -> None:
        self.folder = folder
        self.file = file
        self.seen = 0
        self.stack: dict[int, list[FrameType]] = {}
        self.at: dict[FrameType, int] = {}
        self.lines: Counter[tuple[str, str]] = Counter()
        self.alive: Counter[tuple[str, str]] = Counter()

    def names(self) -> list[str]:
        found = (OPTIMIZED.fullmatch(name) for name in sorted(os.listdir(self.folder)))
        return [match[1] for match in found if match]

    def settle(self) -> None:
        """Give what was written since the last time to the line that is running."""
        names = self.names()
        if (new := len(names) - self.seen) == 0:
            return
        self.seen = len(names)
        frames = self.stack.get(threading.get_ident())
        code = ""
        if frames:
            code = linecache.getline(self.file, self.at[frames[-1]]).strip()
        self.lines[code, self.devices()] += new

    def devices(self) -> str:
        """Where the executables run that came to those alive."""
        import jax

        alive: Counter[tuple[str, str]] = Counter()
        for number, executable in enumerate(jax.devices()[0].client.live_executables()):
            ids = ",".join(str(device.id) for device in executable.local_devices())
            alive[str(number), ids] += 1
        counts = Counter(ids for _, ids in alive.elements())
        before = Counter(ids for _, ids in self.alive.elements())
        self.alive = alive
        return " ".join(sorted(counts - before))

    def trace(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if frame.f_code.co_filename != self.file:
            return None
        self.settle()
        frames = self.stack.setdefault(threading.get_ident(), [])
        if event == "call":
            frames.append(frame)
        if event == "return":
            frames.pop()
            self.at.pop(frame, None)
        else:
            self.at[frame] = frame.f_lineno
        return self.trace


class Log(logging.Handler):
    """What JAX logs of its compilations."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.compiled: list[str] = []
        self.hits = 0

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if match := COMPILED.match(text):
            self.compiled.append(match[1])
        self.hits += bool(CACHE_HIT.match(text))


def measure(name: str) -> dict[str, Any]:
    """Run one case in this process, which has no device yet."""
    with tempfile.TemporaryDirectory() as folder:
        kept = os.environ.get("XLA_FLAGS", "")
        os.environ["XLA_FLAGS"] = f"{kept} --xla_dump_to={folder}".strip()
        import jax

        from cases import jax_cases

        jax.config.update("jax_log_compiles", True)
        log = Log()
        logging.getLogger("jax").addHandler(log)
        logging.getLogger("jax").setLevel(logging.DEBUG)
        logging.getLogger("jax").propagate = False
        for handler in logging.getLogger("jax").handlers[:]:
            if handler is not log:
                logging.getLogger("jax").removeHandler(handler)
        jax.devices()
        dump = Dump(Path(folder), jax_cases.__file__)
        threading.settrace(dump.trace)
        sys.settrace(dump.trace)
        try:
            jax_cases.CASES[name].run()
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            dump.settle()
        names = dump.names()
        begun = sum(".before_optimizations." in file for file in os.listdir(folder))
    return {
        "xla": len(names),
        "log": len(log.compiled) - log.hits,
        "begun": begun,
        "names": names,
        "lines": [[code, ids, count] for (code, ids), count in dump.lines.items()],
    }


if __name__ == "__main__":
    from cases.jax_cases import CASES

    print(json.dumps({name: in_child(measure, name) for name in sys.argv[1:] or CASES}, indent=1))
