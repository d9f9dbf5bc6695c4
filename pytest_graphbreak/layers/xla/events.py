"""The compilations of this process, one ``Event`` each, in the order in which they happened.

Two sources say what torch_xla compiled: its ``CompileTime`` metric how many graphs (``meter``), its
debug file what each was (``debug_file``, as a ``CompileReport`` of ``reports``). Both are read
whenever a function that is watched begins or ends (``bridge``, ``unbridged``), so that what came in
between belongs to what was going on: the ``LoweringContext``. It names the parts of an FX graph as
``fx`` has them: the ``FxGraph``, a ``Cut`` at a node that XLA cannot take, a ``Piece`` between two.

The metric decides: what it counted and nobody reported becomes an event without a report. So there
is always one event for each graph. ``explain`` makes graphs with causes and places of the events.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from msgspec import Struct

from pytest_graphbreak.layers import hooks
from pytest_graphbreak.layers.faults import guard
from pytest_graphbreak.layers.hooks import Hook
from pytest_graphbreak.layers.locks import READER_WAIT, Turn
from pytest_graphbreak.layers.notifier import NOTIFIER
from pytest_graphbreak.layers.private_names import MissingName
from pytest_graphbreak.layers.xla import private as native
from pytest_graphbreak.layers.xla.debug_file import DebugFile
from pytest_graphbreak.layers.xla.executions import DeviceRuns
from pytest_graphbreak.layers.xla.fx import Cut, FxGraph, Piece, PieceInput
from pytest_graphbreak.layers.xla.meter import Meter
from pytest_graphbreak.layers.xla.reports import CompileReport
from pytest_graphbreak.model.stacks import Line, line_at, outwards

_T = TypeVar("_T")

_OURS = "/".join(Path(hooks.__file__).parts[-3:])
"""The end of the path of ``hooks``, which calls watched functions: its frames are left out."""


class LoweringContext(Struct, eq=False):
    """The work during which something was compiled.

    ``kind`` is one of

    - ``inputs``: the bridge settles the inputs of ``graph``;
    - ``piece``: it lowers ``piece``, for the reason ``change`` if it had been lowered before;
    - ``cut``: it runs a node that XLA cannot take;
    - ``run``: the inputs of a compiled ``piece``, named by ``pending``, are settled before it runs;
    - ``unbridged``: a backend without the bridge computes what it had noted of ``graph``;
    - ``backward``: a backward pass of eager code.

    ``within`` is the file and name of a function of the backend that is on the stack of all
    compilations that belong here; without it the bridge has to be on the stack.
    """

    kind: Literal["inputs", "piece", "cut", "run", "unbridged", "backward"]
    graph: FxGraph | None = None
    piece: Piece | None = None
    cut: Cut | None = None
    pending: tuple[PieceInput, ...] = ()
    change: str = ""
    within: tuple[str, str] | None = None


class Event(Struct, eq=False):
    """A compilation. Stacks run from the innermost frame outwards."""

    report: CompileReport | None
    """What torch_xla said of it; None if it was only counted."""
    context: LoweringContext | None
    """What was going on; None if nothing was that is watched, as in code of lazy tensors."""
    backward: tuple[Line, ...] = ()
    """The stack that called ``backward()``, if that was running."""
    fallbacks: dict[str, int] = {}
    """The aten ops that ran on the CPU at about that time, and how often."""
    stack: tuple[Line, ...] = ()
    """The Python stack of its context, if there is no report."""
    resharded: bool = False
    """It put a sharded tensor together."""
    off: str = ""
    """Why nothing is reported, if nothing is."""
    lowering: FxGraph | None = None
    """The FX graph that Dynamo made last, in a log, where no context is known."""
    seconds: float | None = None


Owner = Callable[[CompileReport, Iterable[str]], LoweringContext | None]
"""A function that returns what a compilation belongs to by its stack; None if that does not say it.

It is called with the report, and the aten ops that ran on the CPU at about that time. It is that
of ``unbridged``.
"""


class Recorder:
    """The recorder of the process: ``sensors`` makes it, and each window reads its ``events``.

    ``forget`` is called when the first window opens, ``begin`` once torch_xla is there, and
    ``note_compiled`` by the hooks from then on: what was compiled since the last call becomes
    events. ``isolation`` lets it ``exclude`` what we cause ourselves. It has what it reads: the
    metrics (``meter``), the report file (``debug_file``), and the runs (``executions``).
    """

    def __init__(self) -> None:
        self.meter = Meter()
        self.executions = DeviceRuns(self.meter)
        self.debug = DebugFile()
        self.events: list[Event] = []
        self.errors: list[str] = []
        self.backward: list[tuple[Line, ...]] = []
        """The stacks that called the backward passes that are running, the innermost last."""
        self.owner: Owner = lambda report, ops: None
        self.graphs = 0
        """The count at the last ``note_compiled``; each graph since the first one is an event."""
        self.loaded = 0
        """The graphs that the persistent cache had so far, which are not counted. It is never set
        back: only differences have a meaning."""
        self._turn = Turn()
        """Has one thread at a time note what was compiled; another that calls leaves it to that."""
        self._contexts: deque[LoweringContext | None] = deque()
        """The contexts of calls whose compilations are still to be noted, in their order."""
        self._queue: list[CompileReport] = []
        """Reports of compilations that the metric has not counted yet."""
        # Counters of torch_xla, which the user may clear: CPU ops and reshardings as they were when
        # an event was noted last, compilations and cache hits as at the last ``note_compiled``.
        self._fallbacks: dict[str, int] = {}
        self._resharded = 0
        self._counted = 0
        self._hits = 0

    def begin(self) -> None:
        """Count from here. Raises ``MissingName``."""
        self._queue.clear()
        self.graphs = self.meter.total()
        self._hits = native.cache_hits()
        self.settle_counters()

    def forget(self) -> None:
        """Begin anew with the first window: an exception may have ended something half-way."""
        self.errors.clear()
        self.events.clear()
        self.backward.clear()
        self._contexts.clear()
        self._turn = Turn()

    def guard(self, call: Callable[..., _T], *args: Any) -> _T | None:
        """Call a function of ours. A fault is kept as an error, and never gets to user code."""
        with guard(partial(self.failed, call)):
            return call(*args)
        return None

    def failed(self, call: Hook, fault: Exception) -> None:
        """Keep a fault of a function of ours as an error."""
        text = str(fault)
        if not isinstance(fault, MissingName):
            line = text.strip().split("\n")[0]
            text = f"{type(fault).__name__} in {call.__name__.strip('_')}: {line}"
        error = f"the xla layer cannot be observed: {text}"
        if error not in self.errors:
            self.errors.append(error)

    def note_compiled(self, context: LoweringContext | None = None, patience: float = 0.0) -> None:
        """Note what was compiled since the last call; it belongs to ``context``.

        A reader, who needs the outcome, waits ``patience`` seconds for a thread that is at it
        (``Turn``). A listener is told afterwards: it may look at all windows, and write a file.
        """
        self._contexts.append(context)
        before = len(self.events)
        self._turn.take(self._note_queued, patience)
        if len(self.events) > before:
            NOTIFIER.listener.on_event()

    def _note_queued(self) -> None:
        while self._contexts:
            self.guard(self._note_new, self._contexts.popleft())

    def note_if_compiled(self, context: LoweringContext | None = None) -> None:
        """Call ``note_compiled`` if something was reported, or, without reports, was counted.

        This is cheap where nothing was, so each hook calls it.
        """
        is_reported = self.debug.has_grown()
        if is_reported or (self.debug.off and native.compile_counters() != self._counted):
            self.note_compiled(context)

    @contextmanager
    def exclude(self) -> Iterator[None]:
        """Leave out what is compiled inside: we cause it, and it is nobody's graph."""
        self.note_compiled(patience=READER_WAIT)
        with self.meter.exclude():
            yield
        self._turn.take(self._drop_reports, READER_WAIT)

    def _drop_reports(self) -> None:
        self.debug.read()
        self.settle_counters()

    def settle_counters(self) -> None:
        """Take the CPU counters as they are now as known; only what is added counts as new."""
        self._fallbacks = native.fallbacks()
        self._resharded = native.reshard_count()

    def _note_new(self, context: LoweringContext | None) -> None:
        """Note as many events as graphs were counted; reports may be fewer."""
        hits = native.cache_hits()
        self.loaded += _growth(self._hits, hits)
        self._hits = hits
        self._queue += self.debug.read()
        self._counted = native.compile_counters()
        total = self.meter.total()
        new, self.graphs = total - self.graphs, total
        if new <= 0:
            return
        reports = self._queue[:new]
        del self._queue[:new]
        if not self._queue:  # else a compilation is under way: it is reported before it is counted
            self.debug.forget_unpaired()
        self._add_events(context, reports, unreported=new - len(reports))
        for event, took in zip(self.events[-new:], self.meter.latest(new), strict=True):
            event.seconds = took

    def _add_events(
        self, context: LoweringContext | None, reports: Iterable[CompileReport], unreported: int
    ) -> None:
        fallbacks, resharded = self._ran_on_cpu()
        stack = python_stack() if unreported and context is not None else ()
        backward = self.backward[-1] if self.backward else ()
        for report in reports:
            report.frames = without_hooks(report.frames)
            owner = self.owner(report, fallbacks)
            self.events.append(
                Event(report, owner or context, backward=backward, fallbacks=fallbacks)
            )
        for number in range(unreported):
            event = Event(
                None,
                context,
                backward=backward,
                fallbacks=fallbacks,
                stack=stack,
                resharded=number < resharded,  # which of them did it is not known
                off=self.debug.off,
            )
            self.events.append(event)

    def _ran_on_cpu(self) -> tuple[dict[str, int], int]:
        """Return the operators that ran on the CPU since the last call, and the reshardings."""
        before, resharded = self._fallbacks, self._resharded
        self.settle_counters()
        fallbacks = {
            op: growth
            for op, count in self._fallbacks.items()
            if (growth := _growth(before.get(op, 0), count))
        }
        return fallbacks, _growth(resharded, self._resharded)


def without_hooks(frames: Iterable[Line]) -> tuple[Line, ...]:
    """Return the frames of a stack that would be there if nobody watched."""
    return tuple(frame for frame in frames if not frame.file.endswith(_OURS))


def python_stack() -> tuple[Line, ...]:
    """Return the Python frames of this thread, the innermost first."""
    return tuple(map(line_at, outwards(sys._getframe(1))))


def _growth(before: int, after: int) -> int:
    """Return how much a counter grew. If it went down it was cleared: the bridge does so."""
    return after - before if after >= before else after
