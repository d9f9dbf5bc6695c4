"""The attempts of Dynamo to compile a frame, and the events that the sensors note in them.

These are only facts, as Dynamo has them: no places, no names, no judgement.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from pytest_graphbreak.layers.dynamo.messages import Reason, most_telling, reason
from pytest_graphbreak.layers.dynamo.operations import Calls
from pytest_graphbreak.model.stacks import Line

NO_CODE: Final = Line("", 0, "")
Inlined = tuple[str, ...]
"""What called each function that Dynamo traced between the compiled one and a break, outermost
first: "" for a plain call, else ``generator``, ``method``, ``callback``, ``operator``, ``unknown``.
``("", "callback")``: a function called as usual gave ``map`` the one that breaks."""
UNKNOWN: Final = "unknown"
UNTOLD: Final[Inlined] = (UNKNOWN,)
"""The value where nothing is known of these functions, as in a log."""


class Attempt(Struct, eq=False):
    """Dynamo's attempt to compile one frame, or a function that it captured as a whole."""

    # What it is at.
    id: str = "?"
    """Its compile id, ``0/0``."""
    code: Line = NO_CODE
    """Its function with its first line."""
    written: Line = NO_CODE
    """The same, or the ``forward`` of a module if ``code`` is a decorator's wrapper around it."""
    owner: str = ""
    """The class of the outermost module that was running (``frames.owner``)."""
    above: tuple[Line, ...] = ()
    """The Python stack from the test to the frame, outermost first."""
    parent: Attempt | None = None
    """The latest attempt at the nearest function on that stack, up to the ``torch.compile`` that it
    was called through."""

    # Why there is one.
    fullgraph: bool = False
    export: bool = False
    is_capture: bool = False
    """Whether the function was captured as a whole, or loaded, without a frame."""
    is_torchs: bool = False
    """Whether torch itself was compiling when Dynamo came to the frame: unless it becomes a graph,
    it is not reported."""
    guards: tuple[str, ...] | None = None
    """Dynamo's texts on the guards that failed, one for each earlier compile of the frame, the
    newest first; None if it was not compiled before."""
    guard_value: str = ""
    """What ``failed_guard`` met instead."""

    # What came of it.
    outcome: str = "running"
    """``running``, ``compiled``, ``skipped`` or ``failed``."""
    skip: str = ""
    """What Dynamo said when it skipped the frame."""
    fault: Fault | None = None
    graphs: int = 0
    breaks: dict[tuple[Any, ...], Broke] = {}
    """The breaks that it met, by message and place."""
    seconds: float | None = None
    """Seconds that it took, without attempts in it; None while it is running and if unknown."""

    @property
    def failed_guard(self) -> str:
        """The text of ``guards`` that a report goes by; empty if Dynamo did not say."""
        return most_telling(self.guards or ())

    @property
    def why_broke(self) -> str:
        """The reason of the break that ended it; empty without one."""
        breaks = list(self.breaks.values())
        return breaks[-1].reason.text if breaks else ""


def attempt_name(id: str, rounds: int) -> str:
    """Return the name of an attempt: ``0/0``, or ``0/0#2`` where ids began again once.

    Compile ids begin again when Dynamo is reset; ``rounds`` counts from 1.
    """
    return id if rounds == 1 else f"{id}#{rounds}"


class Fault(Struct):
    """An exception that ended an attempt. ``traced`` says whether tracing had begun.

    ``suppressed``: Dynamo kept it to itself and went on in eager.
    """

    kind: str
    message: str
    traced: bool
    suppressed: bool = False


class Started(Struct, frozen=True, eq=False):
    """The beginning of an attempt."""

    attempt: Attempt


class Ended(Struct, frozen=True, eq=False):
    """News of an attempt: it ended, or its error was suppressed."""

    attempt: Attempt


class Made(Struct, frozen=True, eq=False):
    """A graph that the backend made. ``after_break`` says that a graph break ended it.

    ``bucket`` counts from 0 where DDP cut one captured graph into ``buckets``.
    A log has no ``ops``, ``inputs``, ``outputs`` and ``calls``. ``cached`` is as in
    ``model.items.Graph``; ``number`` counts the graphs of its attempt from 0.
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
