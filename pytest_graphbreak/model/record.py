"""The data: what was observed while one test, script or log ran.

Everything here is frozen, knows neither pytest nor torch, and says what the JSON report has of
it: reading, writing and the schema come from these types (see ``described``). Observers make these
objects; verdicts and reports read them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Final, TypeVar

from pytest_graphbreak.model.described import Described, JsonKey, Object
from pytest_graphbreak.model.fields import (
    AND,
    AnyCause,
    Count,
    Counts,
    Functions,
    Joined,
    LayerName,
    Made,
    Settings,
    Text,
    Times,
)
from pytest_graphbreak.model.forms import (
    BadValue,
    Form,
    OneOf,
    Plain,
    ReadMode,
    Step,
)
from pytest_graphbreak.model.layers import JUDGED, LAYERS


@dataclass(frozen=True, slots=True)
class Frame(Described):
    """A place in source code.

    ``file`` is a stable name (see ``places``), never an absolute path of a
    machine; ``function`` is the qualified name; ``line`` is 1-based and 0 when
    unknown; ``code`` is the stripped source line, empty when unknown.
    """

    DEFINITION: ClassVar = "frame"

    file: Annotated[
        Text,
        JsonKey(
            "Named from its package or from the root of the repository, never absolute; "
            "empty if unknown."
        ),
    ] = ""
    function: Annotated[Text, JsonKey("The qualified name.")] = ""
    line: Annotated[Count, JsonKey("1-based; 0 if unknown.")] = 0
    code: Annotated[Text, JsonKey("The source line, stripped; empty if unknown.")] = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """Identity that survives edits elsewhere in the file: no line number."""
        return (self.file, self.function, " ".join(self.code.split()))


NOWHERE: Final = Frame()


@lru_cache(maxsize=100_000, typed=True)
def _shared(file: Any, function: Any, line: Any, code: Any) -> Frame:
    """Most of a report are the same few places: read once, they take a tenth of the memory."""
    given = {"file": file, "function": function, "line": line, "code": code}
    found: Frame = Object(Frame).reader(ReadMode.WHOLE)(given)
    return found


@dataclass(frozen=True, slots=True)
class Located(Form):
    """A ``Frame``; ``NOWHERE`` is written as ``{}``, unless it is one of a ``whole`` stack."""

    whole: bool = False

    def reader(self, how: ReadMode) -> Step:
        frame = Object(Frame).reader(how)

        def read(value: Any) -> Any:
            if not value and (value == {} or value is None):
                return NOWHERE
            try:
                return _shared(value["file"], value["function"], value["line"], value["code"])
            except (TypeError, KeyError):  # it is no place, or one without all keys
                return frame(value)

        return read if how is not ReadMode.OWN else lambda value: frame(value) if value else NOWHERE

    def writer(self) -> Step:
        write = Object(Frame).writer()
        return write if self.whole else lambda frame: {} if frame == NOWHERE else write(frame)

    def schema(self, definitions: Plain) -> Plain:
        frame = Object(Frame).schema(definitions)
        if self.whole:
            return frame
        definitions["where"] = {
            "description": "A place in the source; {} if there is none.",
            "anyOf": [{"type": "object", "maxProperties": 0}, frame],
        }
        return {"$ref": "#/$defs/where"}


Where = Annotated[Frame, Located()]
Called = Annotated[Frame, Located(whole=True)]


Process = Annotated[
    Text | None,
    JsonKey("The child process that it happened in; null for the test's own.", detail=True),
]
During = Annotated[
    Text | None,
    JsonKey("What the test said that it was doing: a request, a step, a phase.", detail=True),
]


@dataclass(frozen=True, slots=True)
class Break(Described):
    """A graph break: Dynamo gave up in the middle of a frame.

    ``count`` says how often this place broke. ``stack`` runs from the
    outermost user frame to ``where``, which is its last frame.
    """

    DEFINITION: ClassVar = "break"
    ORDER: ClassVar = ("layer", "id", "reason", "explanation", "hints", "count")

    layer: LayerName
    reason: Text = ""
    where: Where = NOWHERE
    id: Annotated[Text | None, JsonKey("The GB id, where torch gives one.")] = None
    explanation: Annotated[Text, JsonKey(detail=True)] = ""
    hints: Annotated[tuple[Text, ...], JsonKey(detail=True)] = ()
    count: Annotated[Times, JsonKey("How often this place broke.")] = 1
    stack: Annotated[
        tuple[Called, ...], JsonKey("From the outermost user frame to where.", detail=True)
    ] = ()
    process: Process = None
    during: During = None

    @property
    def key(self) -> tuple[str, ...]:
        return (self.layer, *self.where.key)


@dataclass(frozen=True, slots=True)
class Eager(Described):
    """Code that left the compiler: a frame skipped, a limit hit, a suppressed error."""

    DEFINITION: ClassVar = "eager"
    ORDER: ClassVar = ("layer", "reason", "count")

    layer: LayerName
    reason: Text = ""
    where: Where = NOWHERE
    count: Times = 1
    process: Process = None
    during: During = None

    @property
    def key(self) -> tuple[str, ...]:
        return (self.layer, *self.where.key)


@dataclass(frozen=True, slots=True)
class Recompile(Described):
    """A frame compiled again. ``graph`` is the name of the new graph (``0/1``).

    ``stack`` is the call that did it, from the outermost user frame inwards.
    """

    DEFINITION: ClassVar = "recompile"

    layer: LayerName
    graph: Annotated[Text, JsonKey("The name of the new graph.")] = ""
    reason: Annotated[Text, JsonKey("The guard that failed.")] = ""
    where: Where = NOWHERE
    stack: Annotated[
        tuple[Called, ...], JsonKey("The call that did it, from the outermost user frame inwards.")
    ] = ()
    process: Process = None
    during: During = None


CACHED: Final = ("compiled", "loaded", "found")
"""Where a graph's code came from: a compiler, a cache on disk, or the memory of the process."""


@dataclass(frozen=True, slots=True)
class Graph(Described):
    """One graph of one layer, with the one cause that it has.

    ``reason`` is the evidence in a user's words (``aten::histc runs on the
    CPU``), ``module`` the path of the nn.Module it came from, ``sources`` the
    names of the graphs above that became this one (``from`` in JSON),
    ``process`` the child process that made it, or None for the test's own, ``during`` what the
    test said that it was doing.
    ``stack`` of a device graph runs from the outermost user frame to ``where``.
    ``functions`` says of a dynamo graph how many of its operations each function
    holds, by ``file::qualified.name``: those of the functions that it calls, too.
    ``cached`` is one of ``CACHED``, or None where the layer cannot tell.
    """

    DEFINITION: ClassVar = "graph"

    layer: LayerName
    name: Annotated[Text, JsonKey(detail=True)] = ""
    cause: Annotated[str, AnyCause()] = "other"
    ops: Count | None = None
    inputs: Annotated[Count | None, JsonKey(detail=True)] = None
    outputs: Annotated[Count | None, JsonKey(detail=True)] = None
    hash: Annotated[Text | None, JsonKey(detail=True)] = None
    sources: Annotated[
        tuple[Text, ...], JsonKey("Names of the graphs above that became this one.", name="from")
    ] = ()
    process: Process = None
    where: Where = NOWHERE
    reason: Annotated[Text, JsonKey("The evidence for the cause.", detail=True)] = ""
    module: Annotated[Text | None, JsonKey("Path of the nn.Module.", detail=True)] = None
    stack: Annotated[
        tuple[Where, ...],
        JsonKey("Of a device graph, from the outermost user frame to where.", detail=True),
    ] = ()
    functions: Annotated[
        Functions,
        JsonKey(
            "Of a dynamo graph, how many of its operations functions hold, with those that they "
            "call, by file::qualified.name."
        ),
    ] = field(default_factory=dict)
    cached: Annotated[
        Annotated[str, OneOf(CACHED)] | None,
        JsonKey(
            "Where its code came from: a compiler, a cache on disk, the memory of the process; "
            "null where the layer cannot tell.",
            detail=True,
        ),
    ] = None
    during: During = None


@dataclass(frozen=True, slots=True)
class Record(Described):
    """Everything that was observed in one window: of one layer, or of all together.

    Counts map a layer to a number of graphs; a layer that was observed and
    made none is in ``layers`` and not in ``graphs``. A count is never derived from
    ``graph_list``: where an observer can count but not explain, it still counts.
    """

    ORDER: ClassVar = ("layers", "graphs", "recompiles", "ops")
    ABOUT: ClassVar = {
        "frames": "Frames that Dynamo looked at, and frames of them that became graphs."
    }

    layers: Annotated[
        tuple[LayerName, ...],
        JsonKey("The layers that were observed.", unique=True),
    ] = ()
    graphs: Annotated[Made, JsonKey("Graphs by layer; what is zero is left out.")] = field(
        default_factory=dict
    )
    recompiles: Annotated[Made, JsonKey("Recompiles by layer; what is zero is left out.")] = field(
        default_factory=dict
    )
    attempted: Annotated[Count, JsonKey(within="frames")] = 0
    compiled: Annotated[Count, JsonKey(within="frames")] = 0
    breaks: Annotated[tuple[Break, ...], JsonKey("Graph breaks, one for each place.")] = ()
    eager: Annotated[
        tuple[Eager, ...], JsonKey("Code that left the compiler, one for each place.")
    ] = ()
    recompile_list: Annotated[
        tuple[Recompile, ...], JsonKey("Each recompile with the guard that failed.", detail=True)
    ] = ()
    graph_list: Annotated[tuple[Graph, ...], JsonKey("Each graph with its one cause.")] = ()
    errors: Annotated[
        tuple[Text, ...],
        JsonKey("Why the gate could not see; any of these makes the verdict error."),
    ] = ()
    notes: Annotated[
        tuple[str, ...], Joined(), JsonKey("What else is to be said of the record.", name="note")
    ] = ()
    settings: Annotated[
        Settings,
        JsonKey(
            "Settings of torch that were not the default when the call of the test began, by name."
        ),
    ] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        layer: str,
        *,
        graphs: int = 0,
        recompiles: int = 0,
        attempted: int = 0,
        compiled: int = 0,
        breaks: Iterable[Break] = (),
        eager: Iterable[Eager] = (),
        recompile_list: Iterable[Recompile] = (),
        graph_list: Iterable[Graph] = (),
        errors: Iterable[str] = (),
        notes: Iterable[str] = (),
    ) -> Record:
        """What was seen of one layer. What comes again, such as a place, is told once."""
        seen = cls(
            (layer,),
            {layer: graphs},
            {layer: recompiles},
            attempted,
            compiled,
            tuple(breaks),
            tuple(eager),
            tuple(recompile_list),
            tuple(graph_list),
            tuple(errors),
            tuple(notes),
        )
        return merge([seen])

    @property
    def note(self) -> str | None:
        """All notes as one text."""
        return AND.join(self.notes) or None

    def noted(self, *notes: str) -> Record:
        """The same record with more to be said of it; an empty note says nothing."""
        return replace(self, notes=_once(filter(None, (*self.notes, *notes))))

    def check(self) -> None:
        """Raise ``BadValue`` where something is counted on a layer that was not observed."""
        for key, counts in (("graphs", self.graphs), ("recompiles", self.recompiles)):
            for layer, count in counts.items():
                if count and layer not in self.layers:
                    words = "is counted, but `layers` says it was not observed"
                    raise BadValue(words, f"{key}.{layer}")

    @property
    def headline(self) -> str:
        """The deepest layer that made graphs, else the deepest observed. For display only.

        A layer is observed as soon as its library is loaded, which an earlier
        test may have done: what a test sees of itself must not hang on that.
        One that is not judged by itself makes no headline.
        """
        observed = [layer for layer in LAYERS if layer in self.layers and layer in JUDGED]
        active = [layer for layer in observed if self.graphs.get(layer)]
        return (active or observed or LAYERS[:1])[-1]

    @property
    def ops(
        self,
    ) -> Annotated[
        Counts,
        JsonKey(
            "Captured operations by layer: what its graphs call, summed; a layer of which not "
            "every graph is known is left out."
        ),
    ]:
        """Captured operations by layer: what its graphs call, summed.

        Only of layers of which every graph is known: a part of them says nothing.
        """
        known = {layer: [g for g in self.graph_list if g.layer == layer] for layer in self.graphs}
        return {
            layer: sum(graph.ops or 0 for graph in known[layer])
            for layer in LAYERS
            if self.graphs.get(layer) == len(known.get(layer, ()))
            and any(graph.ops is not None for graph in known[layer])
        }

    @property
    def functions(self) -> dict[str, int]:
        """How many captured operations each function holds, in all dynamo graphs."""
        found: Counter[str] = Counter()
        for graph in self.graph_list:
            found.update(graph.functions)
        return dict(found)

    def is_explained(self, layer: str) -> bool:
        """Whether each graph of a layer is known: a part of them says nothing of the rest."""
        known = sum(graph.layer == layer for graph in self.graph_list)
        return known == self.graphs.get(layer, 0)

    @property
    def active(self) -> bool:
        """Whether anything was attempted on any layer."""
        return self._active(LAYERS)

    @property
    def judged(self) -> bool:
        """Whether anything was attempted on a layer that is judged without being named."""
        return self._active(JUDGED)

    def _active(self, layers: Collection[str]) -> bool:
        return bool(
            self.attempted
            or any(self.graphs.get(layer) or self.recompiles.get(layer) for layer in layers)
            or any(item.layer in layers for item in self.breaks)
            or any(item.layer in layers for item in self.eager)
        )


def merge(records: Sequence[Record]) -> Record:
    """One record of all: counts added up, lists one after the other, a place once.

    What is said of settings is of no one process or layer, and is left out.
    """
    layers = {layer for record in records for layer in record.layers}
    return Record(
        layers=tuple(layer for layer in LAYERS if layer in layers),
        graphs=_sum(record.graphs for record in records),
        recompiles=_sum(record.recompiles for record in records),
        attempted=sum(record.attempted for record in records),
        compiled=sum(record.compiled for record in records),
        breaks=_places(item for record in records for item in record.breaks),
        eager=_places(item for record in records for item in record.eager),
        recompile_list=tuple(item for record in records for item in record.recompile_list),
        graph_list=tuple(item for record in records for item in record.graph_list),
        errors=_once(error for record in records for error in record.errors),
        notes=_once(note for record in records for note in record.notes),
    )


Placed = TypeVar("Placed", Break, Eager)


def _places(items: Iterable[Placed]) -> tuple[Placed, ...]:
    """One item for each place, in order of first appearance, counts added up."""
    seen: dict[tuple[str, ...], Placed] = {}
    for item in items:
        known = seen.get(item.key)
        seen[item.key] = item if known is None else _together(known, item)
    return tuple(seen.values())


def _together(one: Placed, other: Placed) -> Placed:
    """One place that came up twice. In two processes: then it is that of neither."""
    process = one.process if one.process == other.process else None
    return replace(one, count=one.count + other.count, process=process)


def _once(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


def _sum(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return {layer: total[layer] for layer in LAYERS if total[layer]}
