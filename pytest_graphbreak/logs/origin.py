"""Why each device graph of a log exists, told by what stands before it.

A device graph follows what it comes from: an FX graph that Dynamo just made,
or something that made torch_xla cut a graph. One that follows neither, though
Dynamo was logged, is torch_xla's: a part of an FX graph that was split, a sync,
a value that was read; which, only PT_XLA_DEBUG_LEVEL tells.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from pytest_graphbreak.layers.dynamo.log import LoggedGraph
from pytest_graphbreak.layers.tt.programs import Program
from pytest_graphbreak.layers.xla import log as xlalog
from pytest_graphbreak.layers.xla.reports import Report
from pytest_graphbreak.model.record import NOWHERE, Frame, Graph, Observation
from pytest_graphbreak.model.sources import Sources

DYNAMO: Final = "dynamo"
TORCH_XLA: Final = "torch_xla"
EXPORT: Final = "export"
UNKNOWN: Final = "unknown"
ORIGINS: Final = (DYNAMO, TORCH_XLA, EXPORT, UNKNOWN)

KEPT: Final = 5_000

CUT: Final = "torch_xla cut this graph; why is in the log with PT_XLA_DEBUG_LEVEL=1"


@dataclass(slots=True)
class _Why:
    """What is known of the next device graph of one rank."""

    made: LoggedGraph | None = None
    lowered: LoggedGraph | None = None
    exported: bool = False
    compiled: Graph | None = None
    origin: str = ""


class Origins:
    """Follows a log in order. ``counted`` says how many device graphs each origin and cause has."""

    def __init__(self, sources: Sources) -> None:
        self.counted: Counter[tuple[str, str]] = Counter()
        self.dynamo = False
        self.compilations = 0
        self._sources = sources
        self._ranks: dict[str, _Why] = {}
        self._graphs: list[Graph] = []
        self._counts_xla: Counter[tuple[str, str]] = Counter()

    def made(self, made: LoggedGraph) -> None:
        """Dynamo made an FX graph: the next device graph comes from it."""
        self.dynamo = True
        self._rank(made.rank).made = made

    def exported(self, rank: str) -> None:
        """A program was exported outside Dynamo."""
        self._rank(rank).exported = True

    def compilation(self, rank: str, report: Report) -> None:
        """torch_xla reported a compilation. What it says of the cause is the best evidence."""
        known = self._rank(rank)
        cause, why = xlalog.cause(report)
        made = known.made or known.lowered
        if cause == "fx" and known.made is None and made is not None:
            cause, why = "split", "one more part of an FX graph that XLA could not take whole"
        origin = TORCH_XLA
        sources: tuple[str, ...] = ()
        if cause in ("fx", "split", "backward") and made is not None:
            sources = (made.graph.name,)
        if cause in ("fx", "backward"):
            origin = EXPORT if made is not None and made.export else DYNAMO
            why = why or (made.graph.cause if made and made.graph.cause != "entry" else "")
            known.lowered, known.made = made, None
        self.compilations += 1
        graph = Graph(
            "xla",
            report.name or f"graph {self.compilations}",
            cause,
            inputs=report.inputs,
            outputs=report.outputs,
            hash=report.hash,
            sources=sources,
            process=f"rank {rank}" if rank else None,
            where=xlalog.where(report, self._sources),
            reason=why,
        )
        self._counts_xla[origin, _kind(cause, why)] += 1
        if len(self._graphs) < KEPT:
            self._graphs.append(graph)
        known.compiled, known.origin = graph, origin

    def program(self, program: Program) -> None:
        """The TT compiler begins a graph."""
        known = self._rank(program.rank)
        if known.compiled is not None:
            graph = known.compiled
            program.cause, program.why, program.origin = graph.cause, graph.reason, known.origin
            program.sources, program.where = graph.sources, graph.where
            known.compiled = None
        elif known.made is not None:
            made, known.made, known.lowered = known.made, None, known.made
            program.cause, program.why = "fx", _after(made.graph)
            program.origin = EXPORT if made.export else DYNAMO
            program.sources, program.where = (made.graph.name,), made.graph.where
        elif known.exported:
            program.origin, program.why = EXPORT, "compiled after torch.export, outside Dynamo"
        elif self.dynamo:
            program.origin, program.why = TORCH_XLA, CUT
            if known.lowered is not None:
                program.sources = (known.lowered.graph.name,)
        else:
            program.origin = UNKNOWN
        known.exported = False

    def ended(self, program: Program) -> None:
        """The name of a program is known by now, and may tell more than all else."""
        if program.reshard:
            program.cause, program.origin = "reshard", TORCH_XLA
            program.why, program.sources = "a sharded tensor was gathered", ()
        self.counted[program.origin, _kind(program.cause, program.why)] += 1

    def observation(self) -> Observation | None:
        """The xla layer, if torch_xla reported its compilations."""
        if not self.compilations:
            return None
        return Observation("xla", graphs=self.compilations, graph_list=tuple(self._graphs))

    def totals(self, tt: bool) -> Counter[tuple[str, str]]:
        """By origin and cause: the graphs of the deepest layer."""
        return self.counted if tt else self._counts_xla

    def _rank(self, rank: str) -> _Why:
        return self._ranks.setdefault(rank, _Why())


def _after(graph: Graph) -> str:
    """Why the FX graph exists, where it is not the first of its function."""
    if graph.cause == "entry":
        return ""
    return f"{graph.cause}: {graph.reason}" if graph.reason else graph.cause


def _kind(cause: str, why: str) -> str:
    """The cause to count by: of a lowered FX graph, why there is that FX graph."""
    return why.partition(":")[0] or "entry" if cause == "fx" else cause


def where(program: Program) -> Frame:
    """The best place known for a program: its own text's, else what it follows from."""
    if program.places:
        return program.places[0][0]
    return program.where or NOWHERE
