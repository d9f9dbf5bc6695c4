"""Why each device graph of a log exists, and where: from what precedes it, and from its own text.

A device graph follows its origin: an FX graph that Dynamo has just made, or something that made
torch_xla cut a graph. If it follows neither, although Dynamo was logged, it is torch_xla's: a part
of an FX graph that was split, a sync, or a value that was read; only PT_XLA_DEBUG_LEVEL says which.
Its reports are read by the same reader as the live observer's debug file; here they are found among
everything else, rank by rank.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from pytest_graphbreak.layers.tt.programs import Program
from pytest_graphbreak.layers.xla import explain
from pytest_graphbreak.layers.xla.events import Event, LoweringContext, without_hooks
from pytest_graphbreak.layers.xla.fx import Cut, FxGraph
from pytest_graphbreak.layers.xla.reports import CompileReport, Reader
from pytest_graphbreak.logs.dynamo import LoggedGraph
from pytest_graphbreak.logs.sources import Sources
from pytest_graphbreak.model.merging import record_of
from pytest_graphbreak.model.record import Frame, Graph, Record
from pytest_graphbreak.text import prefixes

DYNAMO: Final = "dynamo"
TORCH_XLA: Final = "torch_xla"
EXPORT: Final = "export"
UNKNOWN: Final = "unknown"
ORIGINS: Final = (DYNAMO, TORCH_XLA, EXPORT, UNKNOWN)

KEPT: Final = 5_000

CUT: Final = "torch_xla cut this graph; why is in the log with PT_XLA_DEBUG_LEVEL=1"


HINT: Final = "Comp"
"""What all lines of the reports have in common, for one search in a line."""
_ANALYSIS: Final = "Compilation Analysis: "
_HASH: Final = "Computation hash: "
_IN_A_SENTENCE: Final = ("Post ", "'", '"', "`")
"""What is before these words where they are no prefix."""


class XlaLines:
    """Finds the blocks and passes each compilation to ``take(rank, report)``."""

    def __init__(self, take: Callable[[str, CompileReport], None]) -> None:
        self._take = take
        self._readers: dict[str, Reader] = {}

    def add_line(self, line: str) -> None:
        """Take the next line of the log that has ``HINT`` in it."""
        at = line.find(_ANALYSIS)
        if at < 0:
            # Without a block of that rank it is somebody else's word (TF_CPP_VMODULE prints it).
            at = line.find(_HASH) if self._readers else -1
        before = line[:at]
        if at < 0 or len(before) > prefixes.BEFORE or before.endswith(_IN_A_SENTENCE):
            return
        rank = prefixes.rank(before)
        reader = self._readers.setdefault(rank, Reader())
        for report in reader.feed(f"{prefixes.text(line[at:])}\n"):
            self._take(rank, report)


def _event(report: CompileReport, graph: FxGraph) -> Event:
    """Return a compilation as the sensors would note it. ``graph`` is what Dynamo made last."""
    called = bool(report.frames)
    report.frames = without_hooks(report.frames)
    # A thread without Python frames is autograd's, even if it called a kernel of ours.
    backward = not report.frames and (called or not report.stated_cause)
    return Event(report, LoweringContext("backward") if backward else None, lowering=graph)


class _RankState(Struct):
    """What is known about the next device graph of one rank.

    ``pending`` is the FX graph that Dynamo made and that was not lowered yet; ``lowered`` is the
    last one that was lowered, and ``fx`` is the FX graph in the form that explains compilations.
    ``compiled`` was reported by torch_xla; it has this ``origin``, and ``kind`` is the cause to
    count it by.
    """

    pending: LoggedGraph | None = None
    lowered: LoggedGraph | None = None
    fx: FxGraph = field(default_factory=FxGraph)
    exported: bool = False
    compiled: Graph | None = None
    origin: str = ""
    kind: str = ""


class Origins:
    """Follows a log in order. ``counted`` has the number of device graphs by origin and cause."""

    def __init__(self, sources: Sources) -> None:
        self.counted: Counter[tuple[str, str]] = Counter()
        self.is_dynamo_logged = False
        self.compilations = 0
        """Those that torch_xla reported."""
        self._sources = sources
        self._ranks: dict[str, _RankState] = {}
        self._graphs: list[Graph] = []
        self._counts_xla: Counter[tuple[str, str]] = Counter()

    def add_fx_graph(self, logged: LoggedGraph) -> None:
        """Note that Dynamo made an FX graph: the next device graph comes from it."""
        self.is_dynamo_logged = True
        state = self._state(logged.rank)
        change = logged.graph.reason if logged.graph.cause == "recompile" else ""
        state.pending = logged
        state.fx = FxGraph(logged.graph.name, where=logged.graph.where, change=change)

    def add_export(self, rank: str) -> None:
        """Note that a program was exported outside Dynamo."""
        self._state(rank).exported = True

    def add_compilation(self, rank: str, report: CompileReport) -> None:
        """Note a compilation that torch_xla reported; its cause there is the best evidence."""
        state = self._state(rank)
        logged = state.pending or state.lowered
        lowers = report.lowers
        # Each part of an FX graph that was split is lowered: a second one without a new FX graph
        # of Dynamo's before it shows that there was a cut.
        relowered = lowers and logged is not None and state.pending is None
        if relowered and not report.is_in_backward:
            state.fx.cuts.append(Cut(0, explain.OUTSIDE))  # another part of the FX graph
        event = _event(report, state.fx)
        graph = explain.graph(report.name or str(self.compilations), event, self._sources)
        graph = replace(graph, process=f"rank {rank}" if rank else None)
        self.compilations += 1
        context = explain.context_of_report(report, state.fx)
        if context is not None and context.kind == "cut":
            state.fx.cuts.append(Cut(0, explain.OUTSIDE))
        state.origin, state.kind = TORCH_XLA, graph.cause
        is_whole = lowers and (graph.cause == "backward" or not relowered)
        if is_whole:  # not another part of a graph that torch_xla cut
            state.origin = EXPORT if logged is not None and logged.export else DYNAMO
            if graph.cause != "backward":
                state.kind = logged.graph.cause if logged is not None else "entry"
            state.lowered, state.pending = logged, None
        self._counts_xla[state.origin, state.kind] += 1
        if len(self._graphs) < KEPT:
            self._graphs.append(graph)
        state.compiled = graph

    def begin_program(self, program: Program) -> None:
        """Note that the TT compiler begins a graph."""
        state = self._state(program.rank)
        if state.compiled is not None:
            graph, state.compiled = state.compiled, None
            program.cause, program.why = graph.cause, graph.reason
            program.origin, program.kind = state.origin, state.kind
            program.sources, program.where = graph.sources, graph.where
        elif (logged := state.pending) is not None:
            state.pending, state.lowered = None, logged
            program.cause, program.why = "fx", _why_again(logged.graph)
            program.origin, program.kind = EXPORT if logged.export else DYNAMO, logged.graph.cause
            program.sources, program.where = (logged.graph.name,), logged.graph.where
        elif state.exported:
            program.origin, program.why = EXPORT, "compiled after torch.export, outside Dynamo"
        elif self.is_dynamo_logged:
            program.origin, program.why = TORCH_XLA, CUT
        else:
            program.origin = UNKNOWN
        state.exported = False

    def end_program(self, program: Program) -> None:
        """Count a program at its end, when its name is known and may override other evidence."""
        if program.reshard:
            program.cause = program.kind = "reshard"
            program.origin, program.why, program.sources = TORCH_XLA, explain.RESHARDED, ()
        self.counted[program.origin, program.kind or program.cause] += 1

    def record(self) -> Record | None:
        """Return the xla layer if torch_xla reported its compilations, else None."""
        if not self.compilations:
            return None
        return record_of("xla", graphs=self.compilations, graph_list=self._graphs)

    def totals(self, tt: bool) -> Counter[tuple[str, str]]:
        """Return the graphs of the deepest layer by origin and cause."""
        return self.counted if tt else self._counts_xla

    def _state(self, rank: str) -> _RankState:
        return self._ranks.setdefault(rank, _RankState())


def _why_again(graph: Graph) -> str:
    """Return why the FX graph exists, or "" if it is the first of its function."""
    if graph.cause == "entry":
        return ""
    return f"{graph.cause}: {graph.reason}" if graph.reason else graph.cause


def place(program: Program) -> Frame:
    """Return the best place known for a program: from its own text, else from its origin."""
    if program.places:
        return program.places[0][0]
    return program.where


# The places that a module's text names: ``loc(...)``, with ``XLA_HLO_DEBUG=1``.
#
# MLIR prints each location once, as an alias, and ops refer to aliases::
#
#     #loc1 = loc("/home/me/model.py":12:0)
#     #loc5 = loc("forward"(#loc1))
#     #loc9 = loc(callsite(#loc5 at #loc7))
#     #loc20 = loc("aten__mm"(#loc9))
#
# An op's place is the innermost frame of its stack that is a model's or the
# user's own code. tt-xla's older path puts all in the op's name instead:
# ``0|Net[net]|Linear[fc]|/home/me/model.py:10|forward|12|aten__mm``.

_ALIAS: Final = re.compile(r"#loc(\d*) = loc\(([^\n]*)", re.A)
_PLAIN: Final = re.compile(r'"([^"\n]{1,4096}\.py)":(\d{1,9})', re.A)
_FILE: Final = re.compile(r'"([^"]*\.py)":(\d{1,9})(?::\d+)?$', re.A)
_NAMED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"(?:\((.*)\))?$')
_CALLSITE: Final = "callsite("
_REFERENCE: Final = re.compile(r"#loc(\d*)", re.A)
_PACKED: Final = re.compile(
    r"^-?\d+\|(?:(?P<modules>.*)\|)?(?P<file>[^|]*\.py):\d+\|(?P<name>[^|]*)\|(?P<line>\d{1,9})\|",
    re.A,
)
_OP: Final = re.compile(r"(?:aten|prims|torch|xla)__(?!device_data)")
"""The ops that torch_xla lowered, but for ``device_data``: inputs, placed where they were made."""

MOST: Final = 100_000
"""The most aliases that are read of one graph; the rest of a larger one is skipped."""

DEPTH: Final = 200
"""How deep locations may be nested: a log is not trusted."""

Place = tuple[str, int, str]
"""The file as the log names it, the 1-based line, and the function (empty if not named)."""


class Locations:
    """The places of one graph, from the lines of its first module."""

    def __init__(self) -> None:
        self._aliases: dict[str, str] = {}
        self._inline: Counter[Place] = Counter()

    def feed(self, text: str) -> None:
        """Read one or more whole lines."""
        for alias in _ALIAS.finditer(text):
            if len(self._aliases) >= MOST:
                return
            body, closed, _ = alias[2].rpartition(")")
            if closed:
                self._aliases[alias[1]] = body
        if not self._aliases:
            for place in _PLAIN.finditer(text):
                self._inline[prefixes.text(place[1]), int(place[2]), ""] += 1

    def places(self, is_user: Callable[[str], bool]) -> tuple[Counter[Place], str]:
        """Return how many kinds of ops each line has, and the path of the module most are in."""
        places: Counter[Place] = Counter()
        modules: Counter[str] = Counter()
        innermost: dict[str, Place | None] = {}
        for body in self._aliases.values():
            match = _NAMED.match(body)
            if match is None:
                continue
            if packed := _PACKED.match(match[1]):
                file = prefixes.text(packed["file"])
                places[file, int(packed["line"]), prefixes.text(packed["name"])] += 1
                modules[_module(packed["modules"] or "")] += 1
            elif match[2] and _OP.match(match[1]):
                place = self._innermost(match[2], is_user, innermost, DEPTH)
                if place is not None:
                    places[place] += 1
        if not places:
            places = Counter(
                {place: number for place, number in self._files() if is_user(place[0])}
            )
        return places, modules.most_common(1)[0][0] if modules else ""

    @property
    def names_files(self) -> bool:
        """Whether any source file is named at all."""
        return bool(self._inline) or any(
            _PLAIN.search(body) or _PACKED.match(body.lstrip('"'))
            for body in self._aliases.values()
        )

    def _files(self) -> Iterator[tuple[Place, int]]:
        yield from self._inline.items()
        for body in self._aliases.values():
            for match in _PLAIN.finditer(body):
                yield (prefixes.text(match[1]), int(match[2]), ""), 1

    def _innermost(
        self,
        body: str,
        is_user: Callable[[str], bool],
        resolved: dict[str, Place | None],
        depth: int,
        name: str = "",
    ) -> Place | None:
        """Return the innermost frame of a location that is the user's; callsites run outwards."""
        if depth == 0:
            return None
        body = body.strip()
        reference = _REFERENCE.fullmatch(body)
        if reference is not None:
            if body not in resolved:
                resolved[body] = None  # a location that contains itself ends here
                inner = self._aliases.get(reference[1], "")
                resolved[body] = self._innermost(inner, is_user, resolved, depth - 1, name)
            return resolved[body]
        if match := _FILE.match(body):
            file = prefixes.text(match[1])
            return (file, int(match[2]), name) if is_user(file) else None
        if body.startswith(_CALLSITE) and body.endswith(")"):
            callee, at, caller = body[len(_CALLSITE) : -1].partition(" at ")
            if at:
                return self._innermost(callee, is_user, resolved, depth - 1) or self._innermost(
                    caller, is_user, resolved, depth - 1
                )
        if match := _NAMED.match(body):
            if not match[2]:
                return None
            return self._innermost(match[2], is_user, resolved, depth - 1, prefixes.text(match[1]))
        return None


def _module(modules: str) -> str:
    """Return the innermost module's path: ``Net[net]|Linear[blocks.0.fc]`` -> ``blocks.0.fc``."""
    inner = re.findall(r"\[([^\[\]|]*)\]", modules)
    return prefixes.text(inner[-1]) if inner else ""
