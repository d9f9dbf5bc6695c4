"""The attempts of Dynamo to compile a frame, and the events that the sensors note in them.

These are only facts, as Dynamo has them: no places, no names, no judgement.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterable
from functools import partial
from types import FrameType
from typing import Any, Final, NamedTuple

from msgspec import Struct

from pytest_graphbreak.layers.dynamo.messages import Reason, reason
from pytest_graphbreak.layers.dynamo.operations import Calls, Shape
from pytest_graphbreak.layers.faults import guard, or_else
from pytest_graphbreak.layers.hooks import caller
from pytest_graphbreak.model.stacks import RUNNERS, Line, first_line, line_at, outwards

NO_CODE: Final = Line("", 0, "")
Inlined = tuple[str, ...]
"""What called each function that Dynamo traced between the compiled one and a break, outermost
first: empty for a plain call, else ``generator``, ``method``, ``callback``, ``operator``."""
UNKNOWN: Final = "unknown"
UNTOLD: Final[Inlined] = (UNKNOWN,)
"""The value where nothing is known of these functions, as in a log."""


class BreakDetails(NamedTuple):
    """What an ``Unsupported`` says: its text and its user's stack; for the rest see ``Broke``."""

    message: str
    stack: Any
    raised: Line = NO_CODE
    disabled: Line = NO_CODE
    inlined: Inlined = UNTOLD


class Attempt(Struct, eq=False):
    """Dynamo's attempt to compile one frame; ``id`` is its compile id, ``0/0``.

    ``code`` is its function with its first line. ``written`` is the same, or the ``forward`` of a
    module if ``code`` is a decorator's wrapper around it. ``above`` is the Python stack from the
    test to the frame, outermost first; ``parent`` the latest attempt at the nearest function on
    that stack, up to the ``torch.compile`` that it was called through. ``guards`` are the guards
    that failed, or None if it was not compiled before, ``guard_value`` says what the first of them
    met instead. ``outcome`` is one of ``running``, ``compiled``, ``skipped`` and ``failed``;
    ``skip`` is what Dynamo said when it skipped the frame, ``suppressed`` whether it kept an error
    to itself and went on in eager, ``is_torchs`` whether torch itself was compiling when it came to
    the frame: unless it becomes a graph, it is not reported; ``is_capture`` whether the function
    was captured as a whole, or loaded, without a frame. ``breaks`` are those that it met, by
    message and place. The rest is the sensors' own bookkeeping: the ``graphs`` that it made by
    ``calls`` of the backend, Dynamo's count before them (``counted``), and a break that torch logs
    later (``pending``) or not at all (``unlogged``).
    """

    id: str = "?"
    code: Line = NO_CODE
    written: Line = NO_CODE
    fullgraph: bool = False
    export: bool = False
    above: tuple[Line, ...] = ()
    parent: Attempt | None = None
    guards: tuple[str, ...] | None = None
    guard_value: str = ""
    outcome: str = "running"
    fault: Fault | None = None
    skip: str = ""
    suppressed: bool = False
    is_torchs: bool = False
    is_capture: bool = False
    graphs: int = 0
    calls: int = 0
    counted: tuple[int, int] | None = None
    breaks: dict[tuple[Any, ...], Broke] = {}
    pending: BreakDetails | None = None
    unlogged: BreakDetails | None = None
    owner: str = ""
    """The class of the outermost module that was running (``frames.owner``)."""
    seconds: float | None = None
    """Seconds that it took, without attempts in it; None while it is running and if unknown."""
    began: float = 0.0
    within: float = 0.0
    """The time when it began, and the seconds of attempts in it."""

    @property
    def why_broke(self) -> str:
        """The reason of the break that ended it; empty without one."""
        breaks = list(self.breaks.values())
        return breaks[-1].reason.text if breaks else ""


class Fault(Struct, frozen=True):
    """An exception that ended an attempt. ``traced`` says whether tracing had begun."""

    kind: str
    message: str
    traced: bool


class Started(Struct, frozen=True, eq=False):
    """The beginning of an attempt."""

    attempt: Attempt


class Ended(Struct, frozen=True, eq=False):
    """News of an attempt: it ended, or its error was suppressed."""

    attempt: Attempt


class Made(Struct, frozen=True, eq=False):
    """A graph that the backend made. ``after_break`` says that a graph break ended it.

    ``bucket`` counts from 0 where DDP cut one captured graph into ``buckets``.
    A log has no ``ops``, ``inputs``, ``outputs`` and ``calls``. ``cached`` is that of ``Graph``.
    """

    attempt: Attempt
    number: int
    ops: int | None = None
    inputs: int | None = None
    outputs: int | None = None
    calls: Calls = ()
    after_break: bool = False
    bucket: int = 0
    buckets: int = 1
    cached: str | None = None
    backend_seconds: float | None = None
    """Seconds that the backend took for a graph made after its attempt had ended."""


class GivenUp(Struct, frozen=True, eq=False):
    """A function that was loaded ahead of time and given up without a run: it is compiled anew."""

    graph: Made


class Broke(Struct, frozen=True, eq=False):
    """A graph break, with the text and the stack of its root exception, outermost first.

    ``full_stack``: the stack begins where that of the attempt does, and not in its frame.
    ``raised`` is the line of torch that raised it, ``disabled`` the definition of the function
    that is disabled, if that is why. A log does not say what ``inlined`` is, and its reader has
    read the message already: ``logged_reason``.
    """

    attempt: Attempt | None
    message: str
    stack: tuple[Line, ...]
    full_stack: bool = False
    logged_reason: Reason | None = None
    raised: Line = NO_CODE
    disabled: Line = NO_CODE
    inlined: Inlined = UNTOLD

    @property
    def reason(self) -> Reason:
        """The parsed message. It is read later, and not while Dynamo compiles."""
        return self.logged_reason or reason(self.message)


class Refused(Struct, frozen=True, eq=False):
    """A function that Dynamo left to eager before it attempted it (a generator).

    ``parent`` is as that of ``Attempt``.
    """

    code: Line
    message: str
    parent: Attempt | None = None


class Stopped(Struct, frozen=True, eq=False):
    """An export that raised. ``above`` is the stack that called it, ``traced`` goes on inside."""

    kind: str
    message: str
    above: tuple[Line, ...]
    traced: tuple[Line, ...]


class Stance(Struct, frozen=True, eq=False):
    """A stance of the compiler that was set, not the default, and the stack that set it."""

    stance: str
    above: tuple[Line, ...]


class Missed(Struct, frozen=True, eq=False):
    """A number of graphs that Dynamo counted and no sensor saw."""

    graphs: int


class NotObserved(Struct, frozen=True, eq=False):
    """A part that could not be observed; ``error`` is reported with the window."""

    error: str


Event = Started | Ended | Made | GivenUp | Broke | Refused | Stopped | Stance | Missed | NotObserved


class Local(threading.local):
    """The frames that a thread is compiling: a stack, since a backend may compile too."""

    def __init__(self) -> None:
        self.running: list[Attempt] = []
        self.failed: tuple[int, Attempt] | None = None
        """The ``id()`` of the exception that ended an attempt last, and the attempt."""
        self.unsupported = BreakDetails("", None)
        self.buckets: list[Shape] = []
        """The parts that the backend made of the graph that it is called for now, if DDP cut it."""
        self.latest_graph: Made | None = None
        """The graph that the backend returned last."""

    def current(self) -> Attempt | None:
        return self.running[-1] if self.running else None

    def begin(self, attempt: Attempt) -> None:
        attempt.began = time.perf_counter()
        self.running.append(attempt)

    def end(self, attempt: Attempt) -> None:
        """End an attempt and what is left of attempts in it; does nothing if it has ended."""
        if attempt not in self.running:
            return
        del self.running[self.running.index(attempt) :]
        took = time.perf_counter() - attempt.began
        attempt.seconds = took - attempt.within
        if self.running:
            self.running[-1].within += took


_EVAL_FRAME: Final = ("_dynamo/eval_frame.py", "_dynamo\\eval_frame.py")
_CONVERT_FRAME: Final = ("_dynamo/convert_frame.py", "_dynamo\\convert_frame.py")


class Notes:
    """What the sensors note, and what they know of the attempts meanwhile.

    ``events`` only grows, so that a window is two positions in it. ``latest`` has the latest
    attempt at each function.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.local = Local()
        self.latest: dict[Line, Attempt] = {}

    def guard(self, what: str) -> guard:
        """Return a context in which a fault of the sensor for ``what`` becomes an event."""
        return guard(partial(self.sensor_failed, what))

    def sensor_failed(self, what: str, fault: BaseException) -> None:
        self.events.append(NotObserved(f"dynamo: the sensor for {what} failed: {say(fault)}"))

    def above(self) -> tuple[Line, ...]:
        """Return the stack that called a function of torch, from the test on."""
        return self.look_up(caller())[0]

    def look_up(self, frame: FrameType | None) -> tuple[tuple[Line, ...], Attempt | None]:
        """Return the stack from the test to Dynamo, and the attempt at its nearest function."""
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
            elif not file.endswith(_CONVERT_FRAME):
                above.append(line_at(outer))
                if searching:
                    parent = self.latest.get(first_line(outer.f_code))
                    searching = parent is None
        return tuple(reversed(above)), parent


def argument(
    name: str, where: dict[str, int], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    return kwargs[name] if name in kwargs else args[where[name]]


def say(fault: BaseException) -> str:
    """Return the text of an exception; Dynamo adds the user's code to ``str``, not to ``msg``.

    One of the user's may refuse to be printed: then it is the name of its class.
    """
    text = vars(fault).get("msg") if has(fault, "msg") else None
    if type(text) is not str:
        text = or_else("", str, fault)
    return text or type(fault).__name__


def has(fault: BaseException, name: str) -> bool:
    """Return whether an exception itself has an attribute, without running code of its class."""
    return name in BaseException.__getattribute__(fault, "__dict__")


def stack_lines(stack: Iterable[Any]) -> tuple[Line, ...]:
    """Return the lines of a stack as Python's ``traceback`` summarises it."""
    return tuple(Line(frame.filename, frame.lineno or 0, frame.name) for frame in stack)


# Code that Dynamo meets while torch itself is compiling: it belongs to nobody.
#
# Elsewhere Dynamo's hook is off while torch compiles. It is in while compiled autograd captures a
# backward pass, and while code that left the compiler makes fake tensors. Then it comes to what
# works out symbolic sizes (sympy), as far as no answer is cached, and to what is imported there.

_CAPTURE: Final = re.compile(r"[/\\]torch[/\\]_dynamo[/\\]compiled_autograd\.py$")
_RUNS_CAPTURED: Final = "runtime_wrapper"
"""The function of that file that runs what was captured; all others capture."""
_SYMBOLIC_SIZES: Final = re.compile(
    r"[/\\]torch[/\\](?:_subclasses|utils[/\\]_sympy)[/\\]"
    r"|[/\\]torch[/\\]fx[/\\]experimental[/\\](?:recording|sym_node|symbolic_shapes)\.py$"
)
_TORCH: Final = re.compile(r"[/\\]torch[/\\]")


def in_capture(frame: FrameType | None) -> bool:
    """Return whether torch was compiling when Dynamo's hook, whose frame is given, was called."""
    is_nearest = True  # only torch's innermost frame says whether sizes are worked out
    for outer in outwards(frame):
        file = outer.f_code.co_filename
        if _CAPTURE.search(file) and outer.f_code.co_name != _RUNS_CAPTURED:
            return True
        if is_nearest and _TORCH.search(file) and not file.endswith(_CONVERT_FRAME):
            if _SYMBOLIC_SIZES.search(file):
                return True
            is_nearest = False
    return False
