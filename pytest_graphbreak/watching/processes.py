"""What Linux offers so that no process outlives the one that answers for it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from typing import Final

# Source: include/uapi/linux/prctl.h.
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36


def die_with(parent: int) -> None:
    """In a child: be killed when ``parent`` ends, however it ends. Elsewhere than on Linux nothing.

    It holds for the program that this process becomes (``exec``), not for its children.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before we asked
        os._exit(128 + signal.SIGKILL)


def adopt_orphans() -> None:
    """Descendants whose parent ended become children of this process, where Linux is asked so."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_orphans() -> None:
    """Kill every child of this process, and what comes to it when they are gone."""
    for _ in range(1000):
        pids = _children()
        if not pids:
            return
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for pid in pids:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def kill_group(leader: int) -> None:
    """Kill a process and those of its group, if there is any."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def _children() -> list[int]:
    """The children that the main thread of this process has; none where Linux does not tell."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except (OSError, ValueError):
        return []


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)
