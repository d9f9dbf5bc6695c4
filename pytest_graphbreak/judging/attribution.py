"""Why graphs exist: each graph of a test is counted for one cause at one place.

What follows a break counts for the break, and a device graph for what made its FX graph exist.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from pytest_graphbreak.model.differences import Item
from pytest_graphbreak.model.layers import DESCRIPTIONS, EXPECTED, LAYERS
from pytest_graphbreak.model.record import NOWHERE, Break, Eager, Frame, Graph, Recompile, Record

UNEXPLAINED: Final = "unexplained"
"""The kind of graphs that were counted and of which a report has no details."""


Key = tuple[str, ...]
"""What a cause is known by: kind, layer and place."""


@dataclass(slots=True)
class PlacedCause:
    """Why graphs of one test exist, or why code of it is not compiled, at one place.

    ``times`` are breaks, frames or recompiles there, or graphs of this cause; ``graphs`` are those
    that exist for it, by layer.
    """

    kind: str
    layer: str
    where: Frame
    reason: str = ""
    id: str | None = None
    stack: tuple[Frame, ...] = ()
    times: int = 0
    graphs: Counter[str] = field(default_factory=Counter)


def kind_of(item: Item) -> str:
    """``break``, ``eager``, ``recompile``, or the cause of a graph."""
    return item.cause if isinstance(item, Graph) else type(item).__name__.lower()


def key_of(item: Item) -> Key:
    """The cause that an item belongs to by itself."""
    kind = kind_of(item)
    # Where a model is meant to be compiled its first line is no identity: it is often edited.
    place = item.where.key[:2] if kind in EXPECTED else item.where.key
    return (kind, item.layer, *place)


class Attribution:
    """The causes of one record, each with the graphs that exist for it.

    ``names`` says by layer and name of a graph what it exists for.
    """

    def __init__(self, record: Record, layers: Sequence[str]) -> None:
        self.causes: dict[Key, PlacedCause] = {}
        self.names: dict[tuple[str, str], Key] = {}
        self._frames: dict[Key, Key] = {}
        self._functions: dict[Key, Key] = {}
        self._reasons: dict[str, Key] = {}
        self._recompiles: dict[tuple[str, str], Key] = {}
        items: tuple[Break | Eager | Recompile, ...] = (
            *record.breaks,
            *record.eager,
            *record.recompile_list,
        )
        for item in items:
            if item.layer in layers:
                self._add_item(item)
        # From the user's code down: a device graph may exist for what made an FX graph exist.
        for graph in sorted(record.graph_list, key=lambda graph: LAYERS.index(graph.layer)):
            if graph.layer in layers:
                key = self._of_graph(graph)
                self.names[graph.layer, graph.name] = key
                self.causes[key].graphs[graph.layer] += 1
        for layer in layers:
            known = sum(cause.graphs[layer] for cause in self.causes.values())
            if missing := record.graphs.get(layer, 0) - known:
                key = (UNEXPLAINED, layer, *NOWHERE.key)
                cause = PlacedCause(UNEXPLAINED, layer, NOWHERE, times=missing)
                self.causes[key] = cause
                cause.graphs[layer] += missing

    def _add_item(self, item: Break | Eager | Recompile) -> None:
        key = self._add(item, 1 if isinstance(item, Recompile) else item.count)
        if isinstance(item, Recompile):
            self._recompiles[item.layer, item.graph] = key
        elif isinstance(item, Break):
            self._reasons.setdefault(item.reason, key)
            for frame in (item.where, *reversed(item.stack)):
                self._frames.setdefault(frame.key, key)
                self._functions.setdefault(frame.key[:2], key)

    def _add(self, item: Item, times: int) -> Key:
        key = key_of(item)
        if key not in self.causes:
            self.causes[key] = PlacedCause(
                kind_of(item),
                item.layer,
                item.where,
                item.reason,
                item.id if isinstance(item, Break) else None,
                () if isinstance(item, Eager) else item.stack,
            )
        self.causes[key].times += times
        return key

    def _of_graph(self, graph: Graph) -> Key:
        layer, where = graph.layer, graph.where
        known = DESCRIPTIONS[layer].cause(graph.cause)
        if known.explained_by == "break":
            # A frame that called the one that broke goes on after its call; what it called is
            # compiled from its first line.
            found = self._frames.get(where.key) or self._functions.get(where.key[:2])
            found = found or self._reasons.get(graph.reason)
            if found is not None:
                return found
        if known.kind == "repeat":
            found = self._recompiles.get((layer, graph.name))
            if found is not None:
                return found
        if DESCRIPTIONS[layer].above is not None and (
            known.is_expected or known.falls_with == "sources"
        ):
            for name in graph.sources:
                found = self._source(layer, name)
                if found is not None and found[0] not in EXPECTED:
                    return found
        return self._add(graph, 1)

    def _source(self, layer: str, name: str) -> Key | None:
        """The cause of the graph of the layer above from which this one was lowered."""
        above = LAYERS[: LAYERS.index(layer)]
        found = (self.names.get((one, name)) for one in reversed(above))
        return next((key for key in found if key is not None), None)
