"""The cause that each graph of a record is counted for: one key for each graph.

A break in a loop makes many graphs, and each of them may be lowered to a graph of the device. To
say what made most of them, each graph is counted for one cause (``cause_keys``)::

    dynamo 0/0    entry                          itself
    dynamo 1/0    the rest after a break         the break
    dynamo 0/1    made by a recompile            the recompile
    xla 7         lowered from 1/0               the break, as 1/0
    xla 8         a split of 1/0                 itself

This is another question than that of ``folding``, which asks below which *new* break a failure
reports something: here the breaks of a record are all counted, each by itself. The page asks
(``report.rows``), and ``graphs`` for what is left over.
"""

from __future__ import annotations

from pytest_graphbreak.model.items import Graph, GraphName, Item
from pytest_graphbreak.model.layers import DESCRIPTIONS, EXPECTED, LAYERS
from pytest_graphbreak.model.record import Record

Key = tuple[str, ...]
"""The identity of a cause: kind, layer and place.

The kind is ``break``, ``eager``, ``recompile`` or the cause of a graph: ``("break", "dynamo",
"yolo/head.py", "Head.forward", "if scores.max().item() > 0.9:")``.
"""


def key_of(item: Item) -> Key:
    """Return the key of the cause that an item is by itself."""
    kind = item.cause if isinstance(item, Graph) else type(item).__name__.lower()
    # The first line of an intended graph is no identity, since it is often edited.
    place = item.where.function_key if kind in EXPECTED else item.where.key
    return (kind, item.layer, *place)


def cause_keys(record: Record) -> dict[GraphName, Key]:
    """Return the key of the cause of each graph of a record."""
    happened = _BreaksAndRecompiles(record)
    names: dict[GraphName, Key] = {}
    # From the user's code down, since a device graph may have the cause of its FX graph.
    for graph in sorted(record.graph_list, key=lambda graph: LAYERS.index(graph.layer)):
        key = happened.cause_of(graph) or _source(graph, names) or key_of(graph)
        names[graph.layer, graph.name] = key
    return names


class _BreaksAndRecompiles:
    """The breaks and recompiles of a record, by what graphs know of them."""

    def __init__(self, record: Record) -> None:
        self._frames: dict[tuple[str, ...], Key] = {}
        """The first break that runs through a line, by ``Frame.key``."""
        self._functions: dict[tuple[str, ...], Key] = {}
        """The first break that runs through a function, for its graphs that begin elsewhere."""
        self._reasons: dict[str, Key] = {}
        """The first break with a reason, for graphs that know no more of it."""
        self._recompiles = {name: key_of(item) for name, item in record.recompile_of.items()}
        for item in record.breaks:
            key = key_of(item)
            self._reasons.setdefault(item.reason, key)
            for frame in (item.where, *reversed(item.stack)):
                self._frames.setdefault(frame.key, key)
                self._functions.setdefault(frame.function_key, key)

    def cause_of(self, graph: Graph) -> Key | None:
        """Return the break or the recompile that made a graph."""
        cause = graph.meaning
        key = None
        if cause.explained_by == "break":
            # A frame that called the one that broke continues after its call; functions that it
            # called are compiled from their first line.
            key = self._frames.get(graph.where.key)
            key = key or self._functions.get(graph.where.function_key)
            key = key or self._reasons.get(graph.reason)
        if key is None and cause.kind == "repeat":
            key = self._recompiles.get((graph.layer, graph.name))
        return key


def _source(graph: Graph, names: dict[GraphName, Key]) -> Key | None:
    """Return the cause of the graph in a layer above from which this one was lowered.

    ``names`` has the causes of the graphs above. ``sources`` name graphs of any layer above, so the
    nearest layer that has the name is taken. A graph that is expected there is no cause: this one
    is then counted for itself, as is one that is cut or lowered again on its own layer.
    """
    cause, has_above = graph.meaning, DESCRIPTIONS[graph.layer].above is not None
    if not (has_above and (cause.is_expected or cause.falls_with == "sources")):
        return None
    above = LAYERS[: LAYERS.index(graph.layer)]
    for name in graph.sources:
        keys = (names.get((upper, name)) for upper in reversed(above))
        key = next((key for key in keys if key is not None), None)
        if key is not None and key[0] not in EXPECTED:
            return key
    return None
