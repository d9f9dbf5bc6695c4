"""Functions of Linux by which no process outlives the one that is responsible for it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Collection, Iterator
from concurrent.futures import thread as futures
from typing import Any, Final

# Source: include/uapi/linux/prctl.h.
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36


def die_with(parent: int) -> None:
    """In a child: be killed when ``parent`` ends, however it ends. Does nothing outside of Linux.

    It holds for the program that this process becomes (``exec``), not for its children.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before we asked
        os._exit(128 + signal.SIGKILL)


def adopt_orphans() -> None:
    """Adopt descendants whose parent ended as children of this process; only on Linux."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_orphans() -> None:
    """Kill every child of this process, and those that it adopts when they are gone."""
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
    """Kill a process and the others of its group, if it exists."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def _children() -> list[int]:
    """Return the children of the main thread of this process; none where Linux lists none."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:
            return [int(word) for word in file.read().split()]
    except (OSError, ValueError):
        return []


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)


# Waiting for the threads that a script leaves behind, as Python does when it ends.
#
# Python joins those that are no daemons. Workers of a ``ThreadPoolExecutor`` that
# nobody shut down end only with the interpreter, so they are not joined: their
# work is waited for.

_POLL: Final = 0.01
"""Seconds between two looks at the workers of a pool."""


def wait_for_threads(before: Collection[threading.Thread]) -> None:
    """Wait until all threads that are not in ``before`` have ended, or have nothing to do."""
    drained = False
    while running := list(_remaining_threads(before)):
        queues = _queues()
        if busy := [thread for thread in running if thread not in queues]:
            for thread in busy:
                _join(thread)
            drained = False  # they may have given work to a pool
        elif drained:
            return
        else:
            pools: dict[int, list[threading.Thread]] = {}
            for thread in running:
                pools.setdefault(id(queues[thread]), []).append(thread)
            for workers in pools.values():
                _drain(workers)
            drained = True


def _join(thread: threading.Thread) -> None:
    try:
        thread.join()
    except RuntimeError:  # it is listed, and only about to start
        time.sleep(_POLL)


def _remaining_threads(before: Collection[threading.Thread]) -> Iterator[threading.Thread]:
    ignored = {threading.current_thread(), *before}
    return (
        thread for thread in threading.enumerate() if thread not in ignored and not thread.daemon
    )


def _queues() -> Any:
    """Return the work queue of each worker of a pool.

    Source: ``_threads_queues`` of concurrent/futures/thread.py, Python 3.10 to 3.13.
    """
    return getattr(futures, "_threads_queues", {})


class _Stop:
    """A work item at which all workers of a pool meet: all items before it are done."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._go = threading.Event()
        self.here: set[threading.Thread] = set()

    def run(self, *_: object) -> None:
        with self._lock:
            self.here.add(threading.current_thread())
        self._go.wait()

    def go(self) -> None:
        self._go.set()


def _drain(workers: list[threading.Thread]) -> None:
    """Wait until the workers of one pool have done all their work, or have ended."""
    stop = _Stop()
    queue = _queues()[workers[0]]
    for _ in workers:
        queue.put(stop)
    try:
        while any(worker.is_alive() and worker not in stop.here for worker in workers):
            workers[0].join(_POLL)
    finally:
        stop.go()
