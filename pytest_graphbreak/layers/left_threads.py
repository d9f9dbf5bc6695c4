"""Threads that an earlier test left: what they compile does not count for later tests.

A thread that waits for work when a test begins (at a queue, in a pool, at a socket) works for that
test, whichever test started it: a pool of the module has its threads from the first that used it.
A thread that sleeps, waits for an event or computes goes on with what the earlier test gave it.
"""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Final, TypeVar

from pytest_graphbreak.text.output import plural

if TYPE_CHECKING:
    from pytest_graphbreak.model.stacks import Line

_WORK: Final = (
    "/queue.py",
    "/selectors.py",
    "/socket.py",
    "/concurrent/futures/thread.py",
    "/multiprocessing/connection.py",
    "/multiprocessing/pool.py",
    "/multiprocessing/queues.py",
)
"""The files of the standard library in which a thread waits for work."""
_THREADING: Final = "/threading.py"

T = TypeVar("T")

_left: weakref.WeakKeyDictionary[threading.Thread, str] = weakref.WeakKeyDictionary()
"""The threads that tests left, and the test that left each."""


class OwnThreads:
    """The threads of one test: those started from its first own fixture on."""

    def __init__(self) -> None:
        self._before = set(threading.enumerate())

    @contextmanager
    def excluded(self) -> Iterator[None]:
        """Exclude the threads that a fixture of wider scope starts inside."""
        before = set(threading.enumerate())
        try:
            yield
        finally:
            self._before.update(set(threading.enumerate()) - before)

    def end(self, test: str) -> None:
        """End the test, with its tear-down: it has left the threads that still run."""
        for thread in threading.enumerate():
            # Native threads (autograd's) are listed once Python code has run in them.
            if thread not in self._before and not isinstance(thread, threading._DummyThread):
                _left.setdefault(thread, test)


class LeftThreads:
    """The threads that were left before a window opened and were at work when it did."""

    def __init__(self) -> None:
        self._tests: dict[threading.Thread, str] = {}
        self._stacks: dict[threading.Thread, tuple[tuple[str, str], ...]] = {}
        if not _left:
            return
        frames = _frames()
        for thread, test in list(_left.items()):
            frame = frames.get(thread.ident or 0)
            if thread.is_alive() and not _waits_for_work(frame):
                self._tests[thread] = test
                self._stacks[thread] = _outermost(frame)

    @property
    def first(self) -> threading.Thread | None:
        return next(iter(self._tests), None)

    def of(self, stack: Iterable[Line]) -> threading.Thread | None:
        """Return the thread that a stack, outermost frame first, is of, by the thread's frames."""
        found = tuple((line.file, line.name) for line in stack)
        return next(
            (
                thread
                for thread, outer in self._stacks.items()
                if outer and found[: len(outer)] == outer
            ),
            None,
        )

    @property
    def by_ident(self) -> dict[int, threading.Thread]:
        return {thread.ident: thread for thread in self._tests if thread.ident is not None}

    def __contains__(self, thread: object) -> bool:
        return thread in self._tests

    def notes(self, layer: str, graphs: Mapping[threading.Thread, int]) -> Iterator[str]:
        """Yield notes on the graphs that each of these threads made."""
        for thread, count in graphs.items():
            if count:
                yield (
                    f"{layer}: {plural(count, 'graph')} of the thread {thread.name} not counted, "
                    f"which {self._tests[thread]} left: join the threads that a test starts"
                )


class Events(list[T]):
    """Events in the order in which they happened, with the left threads that some happened in."""

    def __init__(self) -> None:
        super().__init__()
        self._threads: dict[int, threading.Thread] = {}

    def append(self, event: T) -> None:
        if _left and (thread := threading.current_thread()) in _left:
            self._threads[id(event)] = thread
        super().append(event)

    def extend(self, events: Iterable[T]) -> None:
        for event in events:
            self.append(event)

    def within(self, first: int, excluded: Iterable[tuple[int, int]], until: int) -> Iterator[T]:
        """Yield the events from ``first`` on, of all threads, without those that are excluded."""
        for left, back in excluded:
            yield from self[first:left]
            first = back
        yield from self[first:until]

    def thread(self, event: T) -> threading.Thread | None:
        """Return the thread that a test had left if the event happened in it; else None."""
        return self._threads.get(id(event))


def _frames() -> dict[int, FrameType]:
    """Return the innermost frame of each thread.

    ``sys._current_frames`` allocates while it holds the interpreter's lock on its threads. If a
    garbage collection begins there, it waits for the same lock for ever (python/cpython#106883,
    seen on 3.11.7). So collection is turned off meanwhile.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames()
    finally:
        if collects:
            gc.enable()


def _waits_for_work(frame: FrameType | None) -> bool:
    while frame is not None and _file(frame).endswith(_THREADING):
        frame = frame.f_back
    return frame is not None and _file(frame).endswith(_WORK)


def _outermost(frame: FrameType | None) -> tuple[tuple[str, str], ...]:
    """Return file and name of each frame from a thread's first to that of its own function."""
    from pytest_graphbreak.model.stacks import outwards

    found = [(one.f_code.co_filename, one.f_code.co_name) for one in outwards(frame)]
    found.reverse()
    for number, (file, _) in enumerate(found):
        if not file.replace("\\", "/").endswith(_THREADING):
            return tuple(found[: number + 1])
    return ()


def _file(frame: FrameType) -> str:
    return frame.f_code.co_filename.replace("\\", "/")
