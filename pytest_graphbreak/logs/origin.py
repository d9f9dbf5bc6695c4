"""Why each device graph of a log exists: from what precedes it.

A device graph follows its origin: an FX graph that Dynamo has just made, or something that made
torch_xla cut a graph. If it follows neither, although Dynamo was logged, it is torch_xla's: a part
of an FX graph that was split, a sync, or a value that was read; only PT_XLA_DEBUG_LEVEL says which.

``reading`` makes one ``Origins`` for a log and calls it in the order of the lines:

- ``add_fx_graph`` for a graph of Dynamo (``LoggedGraph``), ``add_export`` for a program that was
  exported outside Dynamo;
- ``add_compilation`` for a report of torch_xla (``CompileReport``). ``layers.xla.explain`` gives it
  a cause, as it does for the compilations of a live window (``Event``);
- ``begin_program`` and ``end_program`` for a graph of the TT compiler (``Program``), which gets its
  ``Origin`` here. An origin has three parts: the ``maker`` (below), the ``cause`` of the graph, and
  ``counted_as``, the cause in the line "origin" of the report. A whole FX graph has the cause
  ``fx`` and is counted as what Dynamo made it for: ``entry``, ``break``, ``recompile``.

In a log of several processes each rank has a state of its own (``_RankState``).
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from pytest_graphbreak.layers.tt.programs import Origin, Program
from pytest_graphbreak.layers.xla import explain
from pytest_graphbreak.layers.xla.events import Event, LoweringContext, without_hooks
from pytest_graphbreak.layers.xla.fx import Cut, FxGraph
from pytest_graphbreak.layers.xla.reports import CompileReport
from pytest_graphbreak.logs.dynamo import LoggedGraph
from pytest_graphbreak.logs.sources import Sources
from pytest_graphbreak.model.items import Graph
from pytest_graphbreak.model.merging import record_of
from pytest_graphbreak.model.record import Record

DYNAMO: Final = "dynamo"
TORCH_XLA: Final = "torch_xla"
EXPORT: Final = "export"
UNKNOWN: Final = "unknown"
"""Unknown is the maker of a graph that follows nothing, where Dynamo did not log."""
MAKERS: Final = (DYNAMO, TORCH_XLA, EXPORT, UNKNOWN)

KEPT: Final = 5_000
"""The most graphs that are kept one by one. All are counted."""

CUT: Final = "torch_xla cut this graph; why is in the log with PT_XLA_DEBUG_LEVEL=1"


def _event(report: CompileReport, graph: FxGraph) -> Event:
    """Return a compilation as the sensors would note it. ``graph`` is what Dynamo made last."""
    frames = without_hooks(report.frames)
    # The report of autograd's thread has no cause and no frames, or only those of our own hooks,
    # through which autograd called a kernel.
    is_backward = not frames and bool(report.frames or not report.stated_cause)
    report.frames = frames
    return Event(report, LoweringContext("backward") if is_backward else None, lowering=graph)


class _RankState(Struct):
    """What is known about the next device graph of one rank. In a log with reports::

    Dynamo made 0/0              pending
    a report that lowers         the whole graph, or its first part; lowered
    a report that lowers         another part: the graph was cut
    """

    pending: LoggedGraph | None = None
    """The FX graph that Dynamo made and that was not lowered yet."""
    lowered: LoggedGraph | None = None
    """The last FX graph that was lowered."""
    fx: FxGraph = field(default_factory=FxGraph)
    """The last graph of Dynamo once more, in the form that ``layers.xla.explain`` takes."""
    exported: bool = False
    """Whether an export was logged, and no program of the TT compiler since then."""
    compiled: Origin | None = None
    """The origin of the last compilation that torch_xla reported: the next program is of it."""

    def add_cut(self) -> None:
        """Note that torch_xla cut the FX graph, at a node that the log does not name."""
        self.fx.cuts.append(Cut(position=0, reason=explain.OUTSIDE))


class Origins:
    """Follows a log in order, and counts the device graphs of each maker and cause."""

    def __init__(self, sources: Sources) -> None:
        self.counted: Counter[tuple[str, str]] = Counter()
        """The graphs of the TT compiler by ``maker`` and ``counted_as``."""
        self.is_dynamo_logged = False
        self.compilations = 0
        """Those that torch_xla reported."""
        self._sources = sources
        self._ranks: dict[str, _RankState] = {}
        self._graphs: list[Graph] = []
        self._counts_xla: Counter[tuple[str, str]] = Counter()
        """As ``counted``, of the compilations that torch_xla reported."""

    def add_fx_graph(self, logged: LoggedGraph) -> None:
        """Note that Dynamo made an FX graph: the next device graph comes from it."""
        self.is_dynamo_logged = True
        state = self._state(logged.rank)
        change = logged.graph.reason if logged.graph.cause == "recompile" else ""
        state.pending = logged
        state.fx = FxGraph(source=logged.graph.name, where=logged.graph.where, change=change)

    def add_export(self, rank: str) -> None:
        """Note that a program was exported outside Dynamo."""
        self._state(rank).exported = True

    def add_compilation(self, rank: str, report: CompileReport) -> None:
        """Note a compilation that torch_xla reported; its cause there is the best evidence."""
        state = self._state(rank)
        logged = state.pending or state.lowered
        # If torch_xla lowers something and Dynamo made no new FX graph before, it is another part
        # of the last one, which was cut, or the backward pass of that.
        is_lowered_again = report.lowers and logged is not None and state.pending is None
        if is_lowered_again and not report.is_in_backward:
            state.add_cut()
        graph = self._explain(rank, report, state)
        is_whole_forward = report.lowers and not is_lowered_again
        maker, counted_as = TORCH_XLA, graph.cause
        if is_whole_forward or (report.lowers and graph.cause == "backward"):
            maker = EXPORT if logged is not None and logged.export else DYNAMO
            if graph.cause != "backward":
                counted_as = logged.graph.cause if logged is not None else "entry"
            state.lowered, state.pending = logged, None
        self._counts_xla[maker, counted_as] += 1
        if len(self._graphs) < KEPT:
            self._graphs.append(graph)
        state.compiled = Origin(
            maker,
            graph.cause,
            counted_as=counted_as,
            reason=graph.reason,
            sources=graph.sources,
            where=graph.where,
        )

    def _explain(self, rank: str, report: CompileReport, state: _RankState) -> Graph:
        """Return the graph of a compilation.

        A node that torch_xla ran by itself is a cut: the next parts of the FX graph follow from it.
        """
        event = _event(report, state.fx)
        graph = explain.graph(report.name or str(self.compilations), event, self._sources)
        self.compilations += 1
        context = explain.context_of_report(report, state.fx)
        if context is not None and context.kind == "cut":
            state.add_cut()
        return replace(graph, process=f"rank {rank}" if rank else None)

    def begin_program(self, program: Program) -> None:
        """Note that the TT compiler begins a graph."""
        state = self._state(program.rank)
        if state.compiled is not None:
            program.origin, state.compiled = state.compiled, None
        elif (logged := state.pending) is not None:
            state.pending, state.lowered = None, logged
            program.origin = Origin(
                EXPORT if logged.export else DYNAMO,
                "fx",
                counted_as=logged.graph.cause,
                reason=_why_again(logged.graph),
                sources=(logged.graph.name,),
                where=logged.graph.where,
            )
        elif state.exported:
            program.origin = Origin(EXPORT, reason="compiled after torch.export, outside Dynamo")
        elif self.is_dynamo_logged:
            program.origin = Origin(TORCH_XLA, reason=CUT)
        else:
            program.origin = Origin(UNKNOWN)
        state.exported = False

    def end_program(self, program: Program) -> None:
        """Count a program whose first module has ended.

        Its name is known now, and may say more than what preceded it.
        """
        if program.reshard:
            program.origin = Origin(
                TORCH_XLA,
                "reshard",
                counted_as="reshard",
                reason=explain.RESHARDED,
                where=program.origin.where,
            )
        self.counted[program.origin.maker, program.origin.counted_as] += 1

    def record(self) -> Record | None:
        """Return the xla layer if torch_xla reported its compilations, else None."""
        if not self.compilations:
            return None
        return record_of("xla", graphs=self.compilations, graph_list=self._graphs)

    def totals(self, *, has_tt: bool) -> Counter[tuple[str, str]]:
        """Return the graphs of the deepest layer, tt or xla, by origin and cause."""
        return self.counted if has_tt else self._counts_xla

    def _state(self, rank: str) -> _RankState:
        return self._ranks.setdefault(rank, _RankState())


def _why_again(graph: Graph) -> str:
    """Return why the FX graph exists: ``recompile: n == 3``; empty for the first of a function."""
    if graph.cause == "entry":
        return ""
    return f"{graph.cause}: {graph.reason}" if graph.reason else graph.cause
