"""What of a test moved between two records, and whether a third one is still like the first. Pure.

A file that is renamed moves no test: places are compared by function and line of source here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from typing import Final

from pytest_graphbreak.model.record import Frame, Record

COUNTS: Final = "counts"
Place = tuple[str, str, str]
"""Layer, function and normalised line of source."""


def _counts(record: Record, layers: frozenset[str]) -> Hashable:
    """What a baseline holds a test to: graphs, recompiles, breaking places, code that left."""
    return (
        tuple((layer, record.graphs.get(layer, 0)) for layer in sorted(layers)),
        tuple((layer, record.recompiles.get(layer, 0)) for layer in sorted(layers)),
        len(_of([(one.layer, one.where) for one in record.breaks], layers)),
        len(_of([(one.layer, one.where) for one in record.eager], layers)),
    )


def _places(record: Record, layers: frozenset[str]) -> Hashable:
    """Where it breaks, where it leaves the compiler, and what its graphs are."""
    causes = Counter((graph.layer, graph.cause) for graph in record.graph_list)
    return (
        frozenset(_of([(one.layer, one.where) for one in record.breaks], layers)),
        frozenset(_of([(one.layer, one.where) for one in record.eager], layers)),
        frozenset((key, count) for key, count in causes.items() if key[0] in layers),
    )


def _ops(record: Record, layers: frozenset[str]) -> Hashable:
    return tuple(sorted((layer, ops) for layer, ops in record.ops.items() if layer in layers))


def _of(items: list[tuple[str, Frame]], layers: frozenset[str]) -> list[Place]:
    """The distinct places on these layers."""
    found = {(layer, where.function, " ".join(where.code.split())) for layer, where in items}
    return sorted(place for place in found if place[0] in layers)


_MEASURES: Final[dict[str, Callable[[Record, frozenset[str]], Hashable]]] = {
    COUNTS: _counts,
    "places": _places,
    "captured operations": _ops,
}
"""What can move, the first that differs between both ends is what is looked for."""


class Likeness:
    """Tells whether a record is still like that of the good end.

    ``what`` is what differs between both ends: counts, or else places, or else captured
    operations; empty where nothing does. Layers that one end did not observe say nothing.
    """

    def __init__(self, good: Record, bad: Record) -> None:
        self._good = good
        self._layers = frozenset(good.layers) & frozenset(bad.layers)
        self.what = next((name for name in _MEASURES if not self._alike(name, bad)), "")

    def __call__(self, record: Record) -> bool:
        """Whether a record is another one than that of the good end."""
        return bool(self.what) and not self._alike(self.what, record)

    def _alike(self, what: str, record: Record) -> bool:
        measure = _MEASURES[what]
        layers = self._layers & frozenset(record.layers)
        return measure(self._good, layers) == measure(record, layers)
