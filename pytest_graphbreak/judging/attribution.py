"""Attributes each graph of a test to one cause at one place.

A graph that follows from a break is counted for the break, a device graph for the cause of its FX
graph.
"""

from __future__ import annotations

from pytest_graphbreak.model.differences import Item
from pytest_graphbreak.model.layers import DESCRIPTIONS, EXPECTED, LAYERS
from pytest_graphbreak.model.record import Graph, Record

Key = tuple[str, ...]
"""The identity of a cause: kind, layer and place."""
GraphName = tuple[str, str]
"""Layer and name of a graph."""


def kind_of(item: Item) -> str:
    """Return ``break``, ``eager``, ``recompile``, or the cause of a graph."""
    return item.cause if isinstance(item, Graph) else type(item).__name__.lower()


def key_of(item: Item) -> Key:
    """Return the key of the cause that an item is by itself."""
    kind = kind_of(item)
    # The first line of an intended graph is no identity, since it is often edited.
    place = item.where.key[:2] if kind in EXPECTED else item.where.key
    return (kind, item.layer, *place)


def cause_keys(record: Record) -> dict[GraphName, Key]:
    """Return the key of the cause of each graph of a record."""
    happened = _Happened(record)
    names: dict[GraphName, Key] = {}
    # From the user's code down, since a device graph may have the cause of its FX graph.
    for graph in sorted(record.graph_list, key=lambda graph: LAYERS.index(graph.layer)):
        key = happened.behind(graph) or _source(graph, names) or key_of(graph)
        names[graph.layer, graph.name] = key
    return names


class _Happened:
    """The breaks and recompiles of a record, by what graphs know of them."""

    def __init__(self, record: Record) -> None:
        self._frames: dict[Key, Key] = {}
        self._functions: dict[Key, Key] = {}
        self._reasons: dict[str, Key] = {}
        self._recompiles = {
            (item.layer, item.graph): key_of(item) for item in record.recompile_list
        }
        for item in record.breaks:
            key = key_of(item)
            self._reasons.setdefault(item.reason, key)
            for frame in (item.where, *reversed(item.stack)):
                self._frames.setdefault(frame.key, key)
                self._functions.setdefault(frame.key[:2], key)

    def behind(self, graph: Graph) -> Key | None:
        """Return the break or the recompile that made a graph."""
        cause = DESCRIPTIONS[graph.layer].cause(graph.cause)
        key = None
        if cause.explained_by == "break":
            # A frame that called the one that broke continues after its call; functions that it
            # called are compiled from their first line.
            where = graph.where.key
            key = self._frames.get(where) or self._functions.get(where[:2])
            key = key or self._reasons.get(graph.reason)
        if key is None and cause.kind == "repeat":
            key = self._recompiles.get((graph.layer, graph.name))
        return key


def _source(graph: Graph, names: dict[GraphName, Key]) -> Key | None:
    """Return the cause of the graph in a layer above from which this one was lowered."""
    layer = DESCRIPTIONS[graph.layer]
    cause = layer.cause(graph.cause)
    if layer.above is None or not (cause.is_expected or cause.falls_with == "sources"):
        return None
    above = LAYERS[: LAYERS.index(graph.layer)]
    for name in graph.sources:
        keys = (names.get((upper, name)) for upper in reversed(above))
        key = next((key for key in keys if key is not None), None)
        if key is not None and key[0] not in EXPECTED:
            return key
    return None
