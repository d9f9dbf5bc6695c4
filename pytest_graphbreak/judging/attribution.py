"""Attributes each graph of a test to one cause at one place.

Consequences of a break are counted for the break, and a device graph for the cause of its FX graph.
So the growth of a test from one record to another (``steps``) is the sum of the growth of its
causes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from pytest_graphbreak.judging.repeats import without_numbers
from pytest_graphbreak.layers.dynamo.messages import LIMIT
from pytest_graphbreak.model.differences import Item
from pytest_graphbreak.model.layers import DESCRIPTIONS, EXPECTED, LAYERS
from pytest_graphbreak.model.record import NOWHERE, Break, Eager, Frame, Graph, Recompile, Record

UNEXPLAINED: Final = "unexplained"
"""The kind of graphs that were counted but have no details in the report."""


Key = tuple[str, ...]
"""The identity of a cause: kind, layer and place."""


@dataclass(slots=True)
class PlacedCause:
    """A cause, at one place, of graphs of a test or of code that is not compiled.

    ``times`` counts breaks, frames or recompiles there, or graphs of this cause; ``graphs`` are the
    graphs that exist because of it, by layer.
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
    """Return ``break``, ``eager``, ``recompile``, or the cause of a graph."""
    return item.cause if isinstance(item, Graph) else type(item).__name__.lower()


def key_of(item: Item) -> Key:
    """Return the key of the cause that an item is by itself."""
    kind = kind_of(item)
    # The first line of an intended graph is no identity, since it is often edited.
    place = item.where.key[:2] if kind in EXPECTED else item.where.key
    return (kind, item.layer, *place)


class Attribution:
    """The causes of one record, each with the graphs that exist because of it.

    ``names`` maps layer and name of a graph to the key of its cause.
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
        # From the user's code down, since a device graph may have the cause of its FX graph.
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
            # A frame that called the one that broke continues after its call; functions that it
            # called are compiled from their first line.
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
        """Return the cause of the graph in a layer above from which this one was lowered."""
        above = LAYERS[: LAYERS.index(layer)]
        found = (self.names.get((one, name)) for one in reversed(above))
        return next((key for key in found if key is not None), None)


# changes from one record to another


How = Literal["new", "gone", "more", "fewer", "reworded", "reason"]
"""How a cause changed. ``reworded``: another torch words it differently. ``reason``: the same torch
gives another reason at the same place.
"""


@dataclass(eq=False, slots=True)
class Step:
    """The change of one cause between two records of a test; ``parent`` is the related break."""

    how: How
    before: PlacedCause | None
    after: PlacedCause | None
    parent: Step | None = None

    @property
    def cause(self) -> PlacedCause:
        cause = self.after or self.before
        assert cause is not None
        return cause

    @property
    def kind(self) -> str:
        return self.cause.kind

    @property
    def times(self) -> tuple[int, int]:
        return tuple(cause.times if cause else 0 for cause in (self.before, self.after))  # type: ignore[return-value]

    @property
    def graphs(self) -> dict[str, int]:
        before, after = (cause.graphs if cause else {} for cause in (self.before, self.after))
        return _less(after, before)


def steps(
    before: Record, after: Record, layers: Sequence[str], same: Collection[str]
) -> list[Step]:
    """Return what changed from one record to another on these layers, breaks first.

    ``same`` are the layers with the same minor version of their compiler; only their reasons are
    compared.
    """
    if all(getattr(before, name) == getattr(after, name) for name in _COMPARED):
        return []  # true of most tests, and quick to check
    found = _steps(Attribution(before, layers).causes, Attribution(after, layers).causes, same)
    breaks = _LeadingBreaks(found)
    for step in found:
        step.parent = breaks.of(step)
    return sorted(found, key=lambda step: step.kind != "break")


_COMPARED: Final = (
    *("layers", "graphs", "recompiles", "breaks", "eager", "recompile_list", "graph_list"),
)


def _steps(
    was: Mapping[Key, PlacedCause], now: Mapping[Key, PlacedCause], same: Collection[str]
) -> list[Step]:
    """Return the causes that changed, without those that only attribute a graph differently."""
    still = {kind for kind in EXPECTED if _sum(was.values(), kind) == _sum(now.values(), kind)}
    steps = []
    for key in dict.fromkeys((*was, *now)):
        before, after = was.get(key), now.get(key)
        how = _how(before, after, same)
        if how is not None and key[0] not in still:
            steps.append(Step(how, before, after))
    # A graph that is now reported as an entry, or as a consequence of a known break, is the same.
    mere = [step for step in steps if _is_mere(step)]
    rest = [step for step in steps if not _is_mere(step)]
    if any(any(step.graphs.values()) for step in rest) or any(_sum(mere).values()):
        return steps
    return rest


def _is_mere(step: Step) -> bool:
    """Return whether a step changes only which cause a graph is counted for."""
    if step.kind in ("eager", "recompile"):
        return False
    return step.kind in EXPECTED or step.how in ("more", "fewer")


def _sum(found: Iterable[Step | PlacedCause], kind: str = "") -> Counter[str]:
    """Return the graphs by layer of all of these, or of those of one kind."""
    total = Counter[str]()
    for one in found:
        if not kind or one.kind == kind:
            total.update(one.graphs)
    return total


def _how(
    before: PlacedCause | None, after: PlacedCause | None, same: Collection[str]
) -> How | None:
    """Return how a cause changed, or None; ``same`` are layers with the same compiler version."""
    if before is None:
        return "new"
    if after is None:
        return "gone"
    growth = sum(_less(after.graphs, before.graphs).values())
    if not growth and after.kind != "break":  # one line may break for each of its callers
        growth = after.times - before.times
    if growth:
        return "more" if growth > 0 else "fewer"
    if after.id != before.id or without_numbers(after.reason) != without_numbers(before.reason):
        return "reason" if after.layer in same else "reworded"
    return None


class _LeadingBreaks:
    """The breaks of one test that appeared or disappeared, by the functions on their stack."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self._found: dict[tuple[str, ...], Step] = {}
        for step in steps:
            if step.kind == "break":
                self._found.setdefault((step.how, *step.cause.where.key), step)
                for frame in (step.cause.where, *step.cause.stack):
                    self._found.setdefault((step.how, *frame.key[:2]), step)

    def of(self, step: Step) -> Step | None:
        """Return the break that explains a change, since it runs through the same function.

        A frame that breaks is skipped, or recompiled with the values it passes on; after the break
        is gone, its function is compiled as intended.
        """
        kind = step.kind
        how: str = step.how
        if kind == "recompile":
            how = {"more": "new", "fewer": "gone"}.get(how, how)
        elif kind in EXPECTED:
            how = {"new": "gone", "gone": "new"}.get(how, "")
        elif kind != "eager" or LIMIT.search(step.cause.reason):
            return None
        where = step.cause.where.key
        return self._found.get((how, *where)) or self._found.get((how, *where[:2]))


def _less(after: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    growth = {layer: after.get(layer, 0) - before.get(layer, 0) for layer in LAYERS}
    return {layer: count for layer, count in growth.items() if count}
