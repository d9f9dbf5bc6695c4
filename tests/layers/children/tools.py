"""Whether a process lives, and waiting for what soon is so."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def soon(there: Callable[[], bool]) -> None:
    until = time.monotonic() + 120  # of a busy machine; what is so is seen at once
    while not there():
        assert time.monotonic() < until
        time.sleep(0.01)


def lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in ("Z", "X")
