"""The attempts of Dynamo to compile a frame, and the events that the sensors note in them.

These are only facts, as Dynamo has them: no places, no names, no judgement.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any, Final

from msgspec import Struct

from pytest_graphbreak.layers.dynamo.messages import Reason, reason
from pytest_graphbreak.layers.faults import or_else
from pytest_graphbreak.model.stacks import Line, outwards

Calls = tuple[tuple[str, int], ...]
"""The number of operators of an FX graph that come from each stack, as Dynamo writes it."""

Shape = tuple[int, int, int, Calls]
"""The operators, inputs and outputs of an FX graph, and where its operators come from."""

NO_SHAPE: Shape = (0, 0, 0, ())

NO_CODE: Final = Line("", 0, "")
MAKES: Final = ("_dynamo/exc.py", "_dynamo\\exc.py")
"""The file whose functions raise for their callers: a break was raised above them."""

Inlined = tuple[str, ...]
"""What called each function that Dynamo traced between the compiled one and a break, outermost
first: empty for a plain call, else ``generator``, ``method``, ``callback``, ``operator``."""
UNKNOWN: Final = "unknown"
UNTOLD: Final[Inlined] = (UNKNOWN,)
"""The value where nothing is known of them, as in a log."""

Said = tuple[str, Any, Line, Line, Inlined]
"""The text of an ``Unsupported``, its user's stack, the line of torch behind it, the disabled
function that it is about, and the functions that lead to it."""


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
    was captured as a whole, or loaded, without a frame. The rest is the sensors' own bookkeeping.
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
    broke: dict[tuple[Any, ...], Broke] = {}
    pending: Said | None = None
    unlogged: Said | None = None
    owner: str = ""
    """The class of the outermost module that was running (``frames``)."""
    seconds: float | None = None
    """Seconds that it took, without attempts in it; None while it is running and if unknown."""
    began: float = 0.0
    within: float = 0.0
    """The time when it began, and the seconds of attempts in it."""

    @property
    def why_broke(self) -> str:
        """The reason of the break that ended it; empty without one."""
        broke = list(self.broke.values())
        return broke[-1].reason.text if broke else ""


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

    ``part`` counts from 0 where one captured graph went to the backend in ``parts``.
    A log has no ``ops``, ``inputs``, ``outputs`` and ``calls``. ``cached`` is that of ``Graph``.
    """

    attempt: Attempt
    number: int
    ops: int | None = None
    inputs: int | None = None
    outputs: int | None = None
    calls: Calls = ()
    after_break: bool = False
    part: int = 0
    parts: int = 1
    cached: str | None = None
    late: float | None = None
    """Seconds that the backend took for a graph made after its attempt had ended."""


class GivenUp(Struct, frozen=True, eq=False):
    """A function that was loaded ahead of time and given up without a run: it is compiled anew."""

    graph: Made


class Broke(Struct, frozen=True, eq=False):
    """A graph break, with the text and the stack of its root exception, outermost first.

    ``full_stack``: the stack begins where that of the attempt does, and not in its frame.
    ``raised`` is the line of torch that raised it, ``disabled`` the definition of the function
    that is disabled, if that is why. A log does not say what ``inlined`` is.
    """

    attempt: Attempt | None
    message: str
    stack: tuple[Line, ...]
    full_stack: bool = False
    read: Reason | None = None
    raised: Line = NO_CODE
    disabled: Line = NO_CODE
    inlined: Inlined = UNTOLD

    @property
    def reason(self) -> Reason:
        """The parsed message. It is read later, and not while Dynamo compiles."""
        return self.read or reason(self.message)


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
        self.unsupported: Said = ("", None, NO_CODE, NO_CODE, UNTOLD)
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


def argument(
    name: str, where: dict[str, int], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    return kwargs[name] if name in kwargs else args[where[name]]


_CONTEXTS: Final = frozenset(
    (
        "_enter_autocast",
        "_exit_autocast",
        "_enter_inference_mode",
        "_exit_inference_mode",
        "_set_grad_enabled",
        "_saved_tensors_hooks_enable",
        "_saved_tensors_hooks_disable",
        "_backend_from_string",
        "_sdpa_kernel",
    )
)
"""The functions that a graph calls where code enters or leaves a context (seen on torch 2.13).

They compute nothing, and are gone when the context is entered outside of the compiled function.
"""


def shape_of(gm: Any) -> Shape:
    """Return what is noted of an FX graph: counts, and the places of its operators.

    Bodies of higher-order operators (``checkpoint``, ``cond``, ``while_loop``) are graphs of their
    own in it; their operators count, too.
    """
    inputs = outputs = 0
    calls: Counter[str] = Counter()
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            inputs += 1
        elif node.op == "output":
            outputs = len(node.args[0]) if isinstance(node.args[0], (tuple, list)) else 1
    for graph in _with_bodies(gm):
        for node in graph.nodes:
            if (
                node.op.startswith("call_")
                and getattr(node.target, "__name__", "") not in _CONTEXTS
            ):
                calls[node.meta.get("stack_trace") or ""] += 1
    return calls.total(), inputs, outputs, tuple(calls.items())


def _with_bodies(gm: Any) -> Iterator[Any]:
    """Yield a graph, and those of the modules that it hands to higher-order operators."""
    todo = [gm]
    while todo:
        module = todo.pop()
        yield module.graph
        names = {node.target for node in module.graph.nodes if node.op == "get_attr"}
        bodies = (getattr(module, name, None) for name in names if "." not in name)
        todo += [body for body in bodies if hasattr(body, "graph")]


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
_FRAME_HOOK: Final = re.compile(r"[/\\]torch[/\\]_dynamo[/\\]convert_frame\.py$")
_TORCH: Final = re.compile(r"[/\\]torch[/\\]")


def in_capture(frame: FrameType | None) -> bool:
    """Return whether torch was compiling when Dynamo's hook, whose frame is given, was called."""
    nearest = True
    for outer in outwards(frame):
        file = outer.f_code.co_filename
        if _CAPTURE.search(file) and outer.f_code.co_name != _RUNS_CAPTURED:
            return True
        if nearest and _TORCH.search(file) and not _FRAME_HOOK.search(file):
            if _SYMBOLIC_SIZES.search(file):
                return True
            nearest = False
    return False
