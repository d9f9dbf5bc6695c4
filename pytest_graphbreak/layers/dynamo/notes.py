"""What the sensors of Dynamo note, and what they know of the attempts that are under way.

An attempt is Dynamo's attempt to compile one frame (``events.Attempt``). There is one ``Notes`` for
all sensors, with the events of all threads::

    Notes           events, the latest attempt at each function
      ThreadState   of each thread: its latest graph, exception, ...
        Running     of each attempt that the thread is at, the innermost last

``sensors`` begins and ends a ``Running``; ``breaks``, ``graphs`` and ``guards`` ask for the current
one. ``BreakDetails`` are kept where a torch up to 2.10 reports a break later, or not at all.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from functools import partial
from types import FrameType
from typing import Any, Final, NamedTuple

from msgspec import Struct

from pytest_graphbreak.layers.dynamo.events import (
    NO_CODE,
    UNTOLD,
    Attempt,
    Event,
    Inlined,
    Made,
    NotObserved,
)
from pytest_graphbreak.layers.dynamo.frames import CONVERT_FRAME
from pytest_graphbreak.layers.dynamo.messages import exception_text
from pytest_graphbreak.layers.dynamo.operations import Shape
from pytest_graphbreak.layers.faults import guard
from pytest_graphbreak.layers.hooks import caller
from pytest_graphbreak.model.stacks import RUNNERS, Line, first_line, line_at, outwards


class BreakDetails(NamedTuple):
    """What is noted of a break before it is an event: ``stack`` is the user's, as torch has it.

    For the other fields see ``Broke``.
    """

    message: str
    stack: Any
    raised: Line = NO_CODE
    disabled: Line = NO_CODE
    inlined: Inlined = UNTOLD


class Running(Struct, eq=False):
    """An attempt that a thread is at, with what the sensors need until it ends."""

    attempt: Attempt
    began: float = 0.0
    within: float = 0.0
    """Seconds of attempts in it."""
    calls: int = 0
    """Calls of the backend that returned."""
    counted: tuple[int, int] | None = None
    """Dynamo's own count before the first of them: see ``Ledger``."""
    pending: BreakDetails | None = None
    """A break for which torch traces again, to stop earlier, and which it logs then or not at all
    (up to 2.9)."""
    unlogged: BreakDetails | None = None
    """A break that torch does not log, if it skips the frame for it."""


class Failed(NamedTuple):
    """The attempt that ended last by an exception, and the ``id()`` of that."""

    fault: int
    attempt: Attempt


class ThreadState(threading.local):
    """What a thread is compiling."""

    def __init__(self) -> None:
        self.running: list[Running] = []
        """A stack, since a backend may compile too."""
        self.exports = 0
        """How many exports it is in."""
        self.failed: Failed | None = None
        self.unsupported = BreakDetails("", None)
        """The break of the ``Unsupported`` that was made last."""
        self.buckets: list[Shape] = []
        """The parts that the backend made of the graph that it is called for now, if DDP cut it."""
        self.latest_graph: Made | None = None
        """The graph that the backend returned last."""

    def current(self) -> Running | None:
        return self.running[-1] if self.running else None

    def begin(self, running: Running) -> None:
        running.began = time.perf_counter()
        self.running.append(running)

    def end(self, running: Running) -> None:
        """End an attempt and what is left of attempts in it; does nothing if it has ended."""
        if running not in self.running:
            return
        del self.running[self.running.index(running) :]
        took = time.perf_counter() - running.began
        running.attempt.seconds = took - running.within
        if self.running:
            self.running[-1].within += took


_EVAL_FRAME: Final = ("_dynamo/eval_frame.py", "_dynamo\\eval_frame.py")


class Notes:
    """What the sensors note, and what they know of the attempts meanwhile.

    ``events`` only grows, so that a window is two positions in it. ``latest`` has the latest
    attempt at each function.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.thread = ThreadState()
        self.latest: dict[Line, Attempt] = {}

    def guard(self, what: str) -> guard:
        """Return a context in which a fault of the sensor for ``what`` becomes an event."""
        return guard(partial(self.sensor_failed, what))

    def sensor_failed(self, what: str, fault: BaseException) -> None:
        self.events.append(
            NotObserved(f"dynamo: the sensor for {what} failed: {exception_text(fault)}")
        )

    def above(self) -> tuple[Line, ...]:
        """Return the stack that called a function of torch, from the test on."""
        return self.look_up(caller())[0]

    def look_up(self, frame: FrameType | None) -> tuple[tuple[Line, ...], Attempt | None]:
        """Return the stack from the test to Dynamo, and the attempt at its nearest function.

        ``RUNNERS`` are the files that call the function of a test.
        """
        above: list[Line] = []
        parent = None
        searching = True
        for outer in outwards(frame):
            file = outer.f_code.co_filename
            if file.endswith(_EVAL_FRAME):
                # A torch.compile wrapper: what called it did not cause this attempt.
                searching = False
            elif file.endswith(RUNNERS):
                break
            elif not file.endswith(CONVERT_FRAME):
                above.append(line_at(outer))
                if searching:
                    parent = self.latest.get(first_line(outer.f_code))
                    searching = parent is None
        return tuple(reversed(above)), parent


def stack_lines(stack: Iterable[Any]) -> tuple[Line, ...]:
    """Return the lines of a stack as Python's ``traceback`` summarises it."""
    return tuple(Line(frame.filename, frame.lineno or 0, frame.name) for frame in stack)
