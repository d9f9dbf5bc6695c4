"""What sensors in several threads share: a lock, and turns at a piece of work.

Both are free in a forked process: the thread that held one may not exist there.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final
from weakref import WeakSet

READER_WAIT: Final = 1.0
"""Seconds for which the reader of a window waits for a sensor that works in another thread."""


class SensorLock:
    """A lock that is free in a forked process: the thread that holds it may not exist there."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _LOCKS.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *failure: object) -> None:
        with suppress(RuntimeError):  # this thread has forked inside
            self._lock.release()

    def renew(self) -> None:
        self._lock = threading.RLock()


class Turn:
    """Has one thread at a time do some work, and no step of the user's wait for another thread.

    A call that comes meanwhile, from another thread or a signal handler, has the work done again by
    the thread that is at it::

        thread A   take: works ......... works again, and goes on
        thread B          take: asks, goes on at once

    The work is to look at what was noted, or to write it: it finds all that was there when it was
    asked for.
    """

    def __init__(self) -> None:
        self._is_asked_for = False
        """Whether somebody has asked since the work was begun last."""
        self.renew()
        _LOCKS.add(self)

    def take(self, work: Callable[[], object], patience: float = 0.0) -> None:
        """Do the work, or leave it to the thread that is at it.

        With ``patience``, of a reader that needs the outcome, that thread is waited for so many
        seconds; if it is not done by then, the work is done beside it.
        """
        self._is_asked_for = True
        is_ours = self._lock.acquire(timeout=patience) if patience else False
        try:
            is_ours = is_ours or self._lock.acquire(blocking=False)
            while self._is_asked_for and (is_ours or patience):
                self._is_asked_for = False
                work()
        finally:
            if is_ours:
                self._lock.release()
        if self._is_asked_for and is_ours:  # asked for after the last look, and left to us
            self.take(work)

    def renew(self) -> None:
        self._lock = threading.Lock()


_LOCKS: Final[WeakSet[SensorLock | Turn]] = WeakSet()


def _after_fork() -> None:
    for lock in [*_LOCKS]:
        lock.renew()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)
