"""The data: what was observed while one test, script or log ran.

Everything here is frozen, knows neither pytest nor torch, and turns into plain
builtin types and back (``to_dict``, ``from_dict``), in the shape that the JSON
report fixes. Observers make these objects; verdicts and reports read them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pytest_graphbreak.model.layer import GraphCause
from pytest_graphbreak.model.layers import BY_NAME, CAUSES, JUDGED, LAYERS

Plain = dict[str, Any]
"""A mapping of exact builtin types, as JSON would give it."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A place in source code.

    ``file`` is a stable name (see ``places``), never an absolute path of a
    machine; ``function`` is the qualified name; ``line`` is 1-based and 0 when
    unknown; ``code`` is the stripped source line, empty when unknown.
    """

    file: str
    function: str = ""
    line: int = 0
    code: str = ""

    def to_dict(self) -> Plain:
        return {"file": self.file, "function": self.function, "line": self.line, "code": self.code}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Frame:
        return cls(
            file=str(data.get("file") or ""),
            function=str(data.get("function") or ""),
            line=int(data.get("line") or 0),
            code=str(data.get("code") or ""),
        )

    @property
    def key(self) -> tuple[str, str, str]:
        """Identity that survives edits elsewhere in the file: no line number."""
        return (self.file, self.function, " ".join(self.code.split()))


NOWHERE = Frame(file="")


def _frame(data: Any) -> Frame:
    return Frame.from_dict(data) if data else NOWHERE


def _where(frame: Frame) -> Plain:
    return {} if frame == NOWHERE else frame.to_dict()


@dataclass(frozen=True, slots=True)
class Break:
    """A graph break: Dynamo gave up in the middle of a frame.

    ``count`` says how often this place broke. ``stack`` runs from the
    outermost user frame to ``where``, which is its last frame.
    """

    layer: str
    reason: str
    where: Frame = NOWHERE
    id: str | None = None
    explanation: str = ""
    hints: tuple[str, ...] = ()
    count: int = 1
    stack: tuple[Frame, ...] = ()

    @property
    def key(self) -> tuple[str, ...]:
        return (self.layer, *self.where.key)

    def to_dict(self) -> Plain:
        return {
            "layer": self.layer,
            "id": self.id,
            "reason": self.reason,
            "explanation": self.explanation,
            "hints": list(self.hints),
            "count": self.count,
            "where": _where(self.where),
            "stack": [frame.to_dict() for frame in self.stack],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Break:
        return cls(
            layer=str(data["layer"]),
            id=data.get("id"),
            reason=str(data.get("reason") or ""),
            explanation=str(data.get("explanation") or ""),
            hints=tuple(str(hint) for hint in data.get("hints") or ()),
            count=int(data.get("count", 1)),
            where=_frame(data.get("where")),
            stack=tuple(Frame.from_dict(frame) for frame in data.get("stack") or ()),
        )


@dataclass(frozen=True, slots=True)
class Eager:
    """Code that left the compiler: a frame skipped, a limit hit, a suppressed error."""

    layer: str
    reason: str
    where: Frame = NOWHERE
    count: int = 1

    @property
    def key(self) -> tuple[str, ...]:
        return (self.layer, *self.where.key)

    def to_dict(self) -> Plain:
        return {
            "layer": self.layer,
            "reason": self.reason,
            "count": self.count,
            "where": _where(self.where),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Eager:
        return cls(
            layer=str(data["layer"]),
            reason=str(data.get("reason") or ""),
            count=int(data.get("count", 1)),
            where=_frame(data.get("where")),
        )


@dataclass(frozen=True, slots=True)
class Recompile:
    """A frame compiled again. ``graph`` is the name of the new graph (``0/1``).

    ``stack`` is the call that did it, from the outermost user frame inwards.
    """

    layer: str
    graph: str
    reason: str
    where: Frame = NOWHERE
    stack: tuple[Frame, ...] = ()

    def to_dict(self) -> Plain:
        return {
            "layer": self.layer,
            "graph": self.graph,
            "reason": self.reason,
            "where": _where(self.where),
            "stack": [frame.to_dict() for frame in self.stack],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Recompile:
        return cls(
            layer=str(data["layer"]),
            graph=str(data.get("graph") or ""),
            reason=str(data.get("reason") or ""),
            where=_frame(data.get("where")),
            stack=tuple(Frame.from_dict(frame) for frame in data.get("stack") or ()),
        )


CACHED: Final = ("compiled", "loaded", "found")
"""Where a graph's code came from: a compiler, a cache on disk, or the memory of the process."""


@dataclass(frozen=True, slots=True)
class Graph:
    """One graph of one layer, with the one cause that it has.

    ``reason`` is the evidence in a user's words (``aten::histc runs on the
    CPU``), ``module`` the path of the nn.Module it came from, ``sources`` the
    names of the graphs above that became this one (``from`` in JSON),
    ``process`` the child process that made it, or None for the test's own.
    ``stack`` of a device graph runs from the outermost user frame to ``where``.
    ``functions`` says of a dynamo graph how many of its operations each function
    holds, by ``file::qualified.name``: those of the functions that it calls, too.
    ``cached`` is one of ``CACHED``, or None where the layer cannot tell.
    """

    layer: str
    name: str
    cause: str
    ops: int | None = None
    inputs: int | None = None
    outputs: int | None = None
    hash: str | None = None
    sources: tuple[str, ...] = ()
    process: str | None = None
    where: Frame = NOWHERE
    reason: str = ""
    module: str | None = None
    stack: tuple[Frame, ...] = ()
    functions: Mapping[str, int] = field(default_factory=dict)
    cached: str | None = None

    def to_dict(self) -> Plain:
        return {
            "layer": self.layer,
            "name": self.name,
            "cause": self.cause,
            "ops": self.ops,
            "inputs": self.inputs,
            "outputs": self.outputs,
            "hash": self.hash,
            "from": list(self.sources),
            "process": self.process,
            "where": _where(self.where),
            "reason": self.reason,
            "module": self.module,
            "stack": [frame.to_dict() for frame in self.stack],
            "functions": dict(self.functions),
            "cached": self.cached,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Graph:
        return cls(
            layer=str(data["layer"]),
            name=str(data.get("name") or ""),
            cause=str(data.get("cause") or "other"),
            ops=data.get("ops"),
            inputs=data.get("inputs"),
            outputs=data.get("outputs"),
            hash=data.get("hash"),
            sources=tuple(str(name) for name in data.get("from") or ()),
            process=data.get("process"),
            where=_frame(data.get("where")),
            reason=str(data.get("reason") or ""),
            module=data.get("module"),
            stack=tuple(Frame.from_dict(frame) for frame in data.get("stack") or ()),
            functions=dict(data.get("functions") or {}),
            cached=data.get("cached"),
        )


@dataclass(frozen=True, slots=True)
class Observation:
    """What one observer saw in one window.

    ``graphs`` is the count and is never derived from ``graph_list``: where an
    observer can count but not explain, it still counts. ``errors`` are reasons
    why the count cannot be trusted; any of them makes the verdict ``error``.
    """

    layer: str
    graphs: int = 0
    recompiles: int = 0
    attempted: int = 0
    compiled: int = 0
    breaks: tuple[Break, ...] = ()
    eager: tuple[Eager, ...] = ()
    recompile_list: tuple[Recompile, ...] = ()
    graph_list: tuple[Graph, ...] = ()
    errors: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """Everything that was observed in one window, all layers together.

    Counts map a layer to a number of graphs; a layer that was observed and
    made none is in ``layers`` and not in ``graphs``.
    """

    layers: tuple[str, ...] = ()
    graphs: Mapping[str, int] = field(default_factory=dict)
    recompiles: Mapping[str, int] = field(default_factory=dict)
    attempted: int = 0
    compiled: int = 0
    breaks: tuple[Break, ...] = ()
    eager: tuple[Eager, ...] = ()
    recompile_list: tuple[Recompile, ...] = ()
    graph_list: tuple[Graph, ...] = ()
    errors: tuple[str, ...] = ()
    note: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Of torch, by name: what was not the default when the call of a test began."""

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
    def ops(self) -> dict[str, int]:
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

    def to_dict(self) -> Plain:
        return {
            "layers": list(self.layers),
            "graphs": {k: v for k, v in self.graphs.items() if v},
            "recompiles": {k: v for k, v in self.recompiles.items() if v},
            "ops": self.ops,
            "frames": {"attempted": self.attempted, "compiled": self.compiled},
            "breaks": [item.to_dict() for item in self.breaks],
            "eager": [item.to_dict() for item in self.eager],
            "recompile_list": [item.to_dict() for item in self.recompile_list],
            "graph_list": [item.to_dict() for item in self.graph_list],
            "errors": list(self.errors),
            "note": self.note,
            "settings": dict(self.settings),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Record:
        """The inverse of ``to_dict``; unknown keys are ignored, missing ones are empty."""
        frames = data.get("frames") or {}
        return cls(
            layers=tuple(data.get("layers") or ()),
            graphs=dict(data.get("graphs") or {}),
            recompiles=dict(data.get("recompiles") or {}),
            attempted=int(frames.get("attempted", 0)),
            compiled=int(frames.get("compiled", 0)),
            breaks=tuple(Break.from_dict(item) for item in data.get("breaks") or ()),
            eager=tuple(Eager.from_dict(item) for item in data.get("eager") or ()),
            recompile_list=tuple(
                Recompile.from_dict(item) for item in data.get("recompile_list") or ()
            ),
            graph_list=tuple(Graph.from_dict(item) for item in data.get("graph_list") or ()),
            errors=tuple(data.get("errors") or ()),
            note=data.get("note"),
            settings=dict(data.get("settings") or {}),
        )


def merge_places(items: Iterable[Break]) -> tuple[Break, ...]:
    """One break for each place, in order of first appearance, counts added up."""
    seen: dict[tuple[str, ...], Break] = {}
    for item in items:
        known = seen.get(item.key)
        seen[item.key] = item if known is None else replace(known, count=known.count + item.count)
    return tuple(seen.values())


def merge_eager(items: Iterable[Eager]) -> tuple[Eager, ...]:
    """One ``Eager`` for each place, in order of first appearance, counts added up."""
    seen: dict[tuple[str, ...], Eager] = {}
    for item in items:
        known = seen.get(item.key)
        seen[item.key] = item if known is None else replace(known, count=known.count + item.count)
    return tuple(seen.values())


def combine(observations: Iterable[Observation]) -> Record:
    """One record from what each observer saw, layers in the order of ``LAYERS``."""
    ordered = sorted(observations, key=lambda seen: LAYERS.index(seen.layer))
    notes = [note for seen in ordered for note in seen.notes]
    return Record(
        layers=tuple(seen.layer for seen in ordered),
        graphs={seen.layer: seen.graphs for seen in ordered if seen.graphs},
        recompiles={seen.layer: seen.recompiles for seen in ordered if seen.recompiles},
        attempted=sum(seen.attempted for seen in ordered),
        compiled=sum(seen.compiled for seen in ordered),
        breaks=merge_places(item for seen in ordered for item in seen.breaks),
        eager=merge_eager(item for seen in ordered for item in seen.eager),
        recompile_list=tuple(item for seen in ordered for item in seen.recompile_list),
        graph_list=tuple(item for seen in ordered for item in seen.graph_list),
        errors=tuple(dict.fromkeys(error for seen in ordered for error in seen.errors)),
        note="; ".join(dict.fromkeys(notes)) or None,
    )


def decomposition(record: Record, layer: str) -> Counter[str]:
    """How many graphs of a layer each cause made, in the order of ``CAUSES``."""
    counted = Counter(graph.cause for graph in record.graph_list if graph.layer == layer)
    return Counter({cause: counted[cause] for cause in CAUSES[layer] if counted[cause]})


def cached(record: Record, layer: str) -> Counter[str]:
    """How many graphs of a layer were compiled, loaded and found, in the order of ``CACHED``."""
    counted = Counter(graph.cached for graph in record.graph_list if graph.layer == layer)
    return Counter({name: counted[name] for name in CACHED if counted[name]})


def cached_text(counted: Mapping[str, int]) -> str:
    """`` (compiled 3, loaded 1)``, behind a number of graphs; empty where all were compiled."""
    if not set(counted) - {"compiled"}:
        return ""
    return f" ({', '.join(f'{name} {count:,}' for name, count in counted.items())})"


def causes_text(counted: Mapping[str, int]) -> str:
    """What makes up a number of graphs: ``2 entries + 1 break``; empty where nothing is known."""
    return " + ".join(
        BY_NAME.get(cause, GraphCause(cause)).of(count) for cause, count in counted.items()
    )
