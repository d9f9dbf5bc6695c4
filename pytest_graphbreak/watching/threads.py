"""Waits for the threads that a script leaves behind, as Python does when it ends.

Python joins those that are no daemons. Workers of a ``ThreadPoolExecutor`` that
nobody shut down end only with the interpreter, so they are not joined: their
work is waited for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator
from concurrent.futures import thread as futures
from typing import Any, Final

_LOOK: Final = 0.01
"""Seconds between two looks at the workers of a pool."""


def wait(before: Collection[threading.Thread]) -> None:
    """Until all threads that were not there ``before`` have ended, or have nothing to do."""
    drained = False
    while left := list(_left(before)):
        queues = _queues()
        if own := [thread for thread in left if thread not in queues]:
            for thread in own:
                _join(thread)
            drained = False  # they may have given work to a pool
        elif drained:
            return
        else:
            pools: dict[int, list[threading.Thread]] = {}
            for thread in left:
                pools.setdefault(id(queues[thread]), []).append(thread)
            for workers in pools.values():
                _drain(workers)
            drained = True


def _join(thread: threading.Thread) -> None:
    try:
        thread.join()
    except RuntimeError:  # it is listed, and only about to start
        time.sleep(_LOOK)


def _left(before: Collection[threading.Thread]) -> Iterator[threading.Thread]:
    known = {threading.current_thread(), *before}
    return (one for one in threading.enumerate() if one not in known and not one.daemon)


def _queues() -> Any:
    """The queue of work of each worker of a pool.

    Source: ``_threads_queues`` of concurrent/futures/thread.py, Python 3.10 to 3.13.
    """
    return getattr(futures, "_threads_queues", {})


class _Stop:
    """An item of work at which all workers of a pool meet: what came before it is done."""

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
        while any(one.is_alive() and one not in stop.here for one in workers):
            workers[0].join(_LOOK)
    finally:
        stop.go()
