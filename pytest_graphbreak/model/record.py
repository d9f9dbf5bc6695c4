"""The data that is observed while one test, script or log runs.

All types are frozen, independent of pytest and torch, and describe the JSON report: reading,
writing and the schema are derived from them (see ``forms``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Annotated, Final, Literal

from msgspec import Meta
from msgspec.structs import replace

from pytest_graphbreak.model.forms import (
    OPTIONAL,
    AnyCause,
    BadValue,
    Count,
    Counts,
    Data,
    Functions,
    LayerName,
    Runs,
    Seconds,
    Settings,
    Text,
    Times,
    definition,
    says,
)
from pytest_graphbreak.model.layers import DESCRIPTIONS, JUDGED, LAYERS, reason_key


class Frame(Data, frozen=True):
    """A place in source code; ``file`` is a stable name (see ``places``)."""

    file: Annotated[
        Text,
        says(
            "Named from its package or from the root of the repository, never absolute; empty if "
            "unknown."
        ),
    ] = ""
    function: Annotated[Text, says("The qualified name.")] = ""
    line: Annotated[Count, says("1-based; 0 if unknown.")] = 0
    code: Annotated[Text, says("The source line, stripped; empty if unknown.")] = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """The identity: file and function, then the code; no line number, which edits move."""
        return (self.file, self.function, " ".join(self.code.split()))


NOWHERE: Final = Frame()
Where = Annotated[Frame, definition("where")]
"""A place; ``NOWHERE`` is ``{}`` in a report."""

Process = Annotated[
    Text | None, says("The child process that it happened in; null for the test's own.")
]
During = Annotated[
    Text | None, says("What the test said that it was doing: a request, a step, a phase.")
]


class _Attributed(Data, frozen=True, kw_only=True):
    """Something a compiler spent time on, with the time and the model that it was for."""

    seconds: Annotated[
        Seconds | None,
        OPTIONAL,
        says(
            "Time of its compilation, of a break that of the graphs that follow it; left out "
            "where it is not known."
        ),
    ] = None
    owner: Annotated[
        Text | None,
        OPTIONAL,
        says("The class of the outermost nn.Module that was running; left out without one."),
    ] = None


class _AtPlace(_Attributed, frozen=True):
    """Something that happened at a place, for a reason; a record has each ``key`` once."""

    layer: LayerName
    reason: Text = ""
    where: Where = NOWHERE

    @property
    def key(self) -> tuple[str, ...]:
        return (self.layer, *self.where.key, *reason_key(self.layer, self.reason))


class BreakReason(Data, frozen=True):
    """Another reason for which the line of a break breaks as well."""

    reason: Text = ""
    id: Text | None = None
    explanation: Text = ""
    hints: tuple[Text, ...] = ()


class Break(_AtPlace, frozen=True):
    """A graph break: Dynamo gave up in the middle of a frame; ``where`` ends its ``stack``."""

    id: Annotated[Text | None, says("The GB id, where torch gives one.")] = None
    explanation: Text = ""
    hints: tuple[Text, ...] = ()
    count: Annotated[Times, says("How often this place broke.")] = 1
    stack: Annotated[tuple[Frame, ...], says("From the outermost user frame to where.")] = ()
    process: Process = None
    during: During = None
    disabled: Annotated[
        Where,
        says("The definition of the disabled function that is called: its decorator, or its def."),
    ] = NOWHERE
    raised: Annotated[
        Where, OPTIONAL, says("The line of torch that gave up; left out where it is not known.")
    ] = NOWHERE
    through: Annotated[Text, OPTIONAL, says("What leads there, if not plain calls alone.")] = ""
    also: Annotated[
        tuple[BreakReason, ...], says("Further reasons for which the same line broke.")
    ] = ()

    @property
    def reasons(self) -> tuple[BreakReason, ...]:
        """All reasons of the line, in the order in which they came."""
        return (BreakReason(self.reason, self.id, self.explanation, self.hints), *self.also)


class Eager(_AtPlace, frozen=True):
    """Code that left the compiler: a frame skipped, a limit hit, a suppressed error."""

    count: Times = 1
    process: Process = None
    during: During = None
    caller: Annotated[
        Where, OPTIONAL, says("The function that calls it, if that broke; left out if not.")
    ] = NOWHERE


class Recompile(_Attributed, frozen=True):
    """A recompile of a frame. ``graph`` is the name of the new graph (``0/1``)."""

    layer: LayerName
    graph: Annotated[Text, says("The name of the new graph.")] = ""
    reason: Annotated[Text, says("The guard that failed.")] = ""
    where: Where = NOWHERE
    stack: Annotated[
        tuple[Frame, ...], says("The call that did it, from the outermost user frame inwards.")
    ] = ()
    guard: Annotated[Where, says("The line that the guard comes from, where it is known.")] = (
        NOWHERE
    )
    origin: Annotated[
        Where,
        says(
            "The line that sets the attribute or global that the guard names, if only one line can."
        ),
    ] = NOWHERE
    process: Process = None
    during: During = None


CACHED: Final = ("compiled", "loaded", "found")
"""Where the code of a graph came from: a compiler, a cache on disk, the memory of the process."""

if TYPE_CHECKING:  # mypy knows no ``Literal`` of a variable
    Cached = str
else:
    Cached = Literal[CACHED]


class Graph(_Attributed, frozen=True, rename={"sources": "from"}):
    """A graph of a layer, with its one cause.

    ``reason`` is in a user's words (``aten::histc runs on the CPU``).
    """

    layer: LayerName
    name: Text = ""
    cause: AnyCause = "other"
    ops: Count | None = None
    inputs: Count | None = None
    outputs: Count | None = None
    hash: Text | None = None
    sources: Annotated[
        tuple[Text, ...], says("Names of the graphs above that became this one.")
    ] = ()
    process: Process = None
    where: Where = NOWHERE
    reason: Annotated[Text, says("The evidence for the cause.")] = ""
    module: Annotated[Text | None, says("Path of the nn.Module.")] = None
    stack: Annotated[
        tuple[Where, ...],
        says(
            "Of a device graph, from the outermost user frame to where; of one of inductor, the "
            "line that keeps it from a CUDA graph."
        ),
    ] = ()
    functions: Annotated[
        Functions,
        says(
            "Of a dynamo graph, how many of its operations functions hold, with those that they "
            "call, by file::qualified.name."
        ),
    ] = {}
    cached: Annotated[
        Cached | None,
        says(
            "Where its code came from: a compiler, a cache on disk, the memory of the process; "
            "null where the layer does not know."
        ),
    ] = None
    during: During = None

    @property
    def is_repeat(self) -> bool:
        """Whether it is the same code compiled again."""
        return DESCRIPTIONS[self.layer].cause(self.cause).kind == "repeat"


class LineRuns(Data, frozen=True):
    """Runs of compiled graphs, or reads of values, caused by one line.

    ``cause`` says what caused them: ``call`` of a compiled function, ``sync``, ``access`` (a value
    was read that was not computed yet), ``item`` (a read), ``other``.
    """

    layer: LayerName
    cause: Annotated[Text, says("What asked: call, sync, access, item, other.")] = "other"
    graph: Annotated[Text, says("The name of the graph that ran, where it is known.")] = ""
    count: Annotated[Times, says("How often.")] = 1
    where: Where = NOWHERE
    process: Process = None

    @property
    def key(self) -> tuple[str, ...]:
        return (self.layer, self.cause, self.graph, *self.where.key)

    @property
    def line(self) -> str:
        """The name of the line in a baseline: ``file::function cause: code``."""
        file, function, code = self.where.key
        return f"{file}::{function} {self.cause}: {code}"

    @property
    def reason(self) -> str:
        """An empty text, since the cause is the reason."""
        return ""

    @property
    def stack(self) -> tuple[Frame, ...]:
        """The line alone, since the calls that led there are not kept."""
        return (self.where,)


class Frames(Data, frozen=True):
    """How many frames Dynamo looked at, and how many of them became graphs."""

    attempted: Count = 0
    compiled: Count = 0


NOTE_SEPARATOR: Final = "; "
"""Stands between the notes of a record, in a report."""


class Record(Data, frozen=True):
    """Everything that was observed in one window, of one layer or of all layers.

    Counts map a layer to a number of graphs; an observed layer without graphs is in ``layers`` and
    not in ``graphs``. A count is never derived from ``graph_list``, since an observer may be able
    to count but not to explain.
    """

    layers: Annotated[
        tuple[LayerName, ...],
        Meta(description="The layers that were observed.", extra_json_schema={"uniqueItems": True}),
    ] = ()
    graphs: Annotated[Counts, says("Graphs by layer; what is zero is left out.")] = {}
    recompiles: Annotated[Counts, says("Recompiles by layer; what is zero is left out.")] = {}
    frames: Annotated[
        Frames, says("Frames that Dynamo looked at, and frames of them that became graphs.")
    ] = Frames()
    breaks: Annotated[tuple[Break, ...], says("Graph breaks, one for each place.")] = ()
    eager: Annotated[
        tuple[Eager, ...], says("Code that left the compiler, one for each place.")
    ] = ()
    recompile_list: Annotated[
        tuple[Recompile, ...], says("Each recompile with the guard that failed.")
    ] = ()
    graph_list: Annotated[tuple[Graph, ...], says("Each graph with its one cause.")] = ()
    executions: Annotated[
        Runs,
        says(
            "Runs of compiled graphs, by layer; without a layer whose runs nobody counts, null "
            "where a process that lives on has not told them."
        ),
    ] = {}
    reads: Annotated[
        Runs,
        says(
            "Values that the host waited for, by layer; without a layer that has no such, null "
            "where a process that lives on has not told them."
        ),
    ] = {}
    execution_list: Annotated[
        tuple[LineRuns, ...], says("Which lines ran compiled graphs, and how often.")
    ] = ()
    read_list: Annotated[
        tuple[LineRuns, ...], says("Which lines read values back to the host, and how often.")
    ] = ()
    errors: Annotated[
        tuple[Text, ...], says("Why the gate could not see; any of these makes the verdict error.")
    ] = ()
    notes: tuple[Text, ...] = ()
    settings: Annotated[
        Settings,
        says(
            "Settings of torch that were not the default when the call of the test began, by name."
        ),
    ] = {}

    @property
    def note(self) -> str | None:
        """All notes as one text, or None without notes."""
        return NOTE_SEPARATOR.join(self.notes) or None

    def with_notes(self, *notes: str) -> Record:
        """Return the same record with additional notes; empty notes are ignored."""
        return replace(self, notes=tuple(dict.fromkeys(filter(None, (*self.notes, *notes)))))

    def check(self) -> None:
        """Raise ``BadValue`` if something is counted on a layer that was not observed."""
        for key in ("graphs", "recompiles", "executions", "reads"):
            counts: Mapping[str, int | None] = getattr(self, key)
            for layer, count in counts.items():
                if count and layer not in self.layers:
                    words = "is counted, but `layers` says it was not observed"
                    raise BadValue(words, f"{key}.{layer}")

    @property
    def headline(self) -> str:
        """The deepest layer that made graphs, else the deepest observed one. For display only.

        A layer is observed as soon as its library is loaded, possibly by an earlier test, and what
        a test shows must not depend on that. Layers that are only judged when named are left out.
        """
        observed = [layer for layer in LAYERS if layer in self.layers and layer in JUDGED]
        active = [layer for layer in observed if self.graphs.get(layer)]
        return (active or observed or LAYERS[:1])[-1]  # without any layer: dynamo

    @property
    def ops(self) -> dict[str, int]:
        """The number of captured operations of all graphs, by layer.

        A graph that was compiled again holds what the first one holds, and is left out. Only layers
        of which every graph is known are included, since a partial sum is meaningless.
        """
        graphs: dict[str, list[Graph]] = {}
        for graph in self.graph_list:
            graphs.setdefault(graph.layer, []).append(graph)
        return {
            layer: sum(graph.ops or 0 for graph in graphs[layer] if not graph.is_repeat)
            for layer in LAYERS
            if layer in graphs
            and self.graphs.get(layer) == len(graphs[layer])
            and any(graph.ops is not None for graph in graphs[layer])
            # What was loaded ahead of time has operations that nobody counted.
            and all(graph.ops is not None or graph.cached != "loaded" for graph in graphs[layer])
        }

    def is_explained(self, layer: str) -> bool:
        """Return whether each graph of a layer is known; some tell nothing about the rest."""
        count = sum(graph.layer == layer for graph in self.graph_list)
        return count == self.graphs.get(layer, 0)

    @property
    def active(self) -> bool:
        """Whether anything was attempted on any layer."""
        return self._active(LAYERS)

    @property
    def has_judged_layer(self) -> bool:
        """Whether anything was attempted on a layer that is judged without being named."""
        return self._active(JUDGED)

    def _active(self, layers: Collection[str]) -> bool:
        return bool(
            self.frames.attempted
            or any(self.graphs.get(layer) or self.recompiles.get(layer) for layer in layers)
            or any(item.layer in layers for item in self.breaks)
            or any(item.layer in layers for item in self.eager)
        )
