"""The record: all that was observed while one test, script or log ran, as counts and items.

Observers make one of their layer, and ``merging`` makes one of these for a window. ``items`` has
the types of what its lists hold. A record is frozen, and independent of pytest and torch. Its type
describes the JSON report: reading, writing and the schema are derived from it (see ``forms``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Final

from msgspec import Meta
from msgspec.structs import replace

from pytest_graphbreak.model.forms import (
    BadValue,
    Count,
    Counts,
    Data,
    LayerName,
    Runs,
    Settings,
    Text,
    says,
)
from pytest_graphbreak.model.items import Break, Eager, Graph, GraphName, LineRuns, Recompile
from pytest_graphbreak.model.layers import JUDGED, LAYERS


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
        ops: dict[str, int] = {}
        for layer in filter(self.graphs.get, LAYERS):
            graphs = self.graphs_of(layer)
            counted = [graph for graph in graphs if graph.ops is not None]
            # What was loaded ahead of time has operations that nobody counted.
            is_partial = any(graph.ops is None and graph.cached == "loaded" for graph in graphs)
            if counted and not is_partial and len(graphs) == self.graphs[layer]:
                ops[layer] = sum(graph.ops or 0 for graph in counted if not graph.is_repeat)
        return ops

    @property
    def recompile_of(self) -> dict[GraphName, Recompile]:
        """The recompiles by the graph that each made."""
        return {(item.layer, item.graph): item for item in self.recompile_list}

    def graphs_of(self, layer: str) -> list[Graph]:
        """Return the graphs of a layer that are known."""
        return [graph for graph in self.graph_list if graph.layer == layer]

    def is_explained(self, layer: str) -> bool:
        """Return whether each graph of a layer is known; some tell nothing about the rest."""
        return len(self.graphs_of(layer)) == self.graphs.get(layer, 0)

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
