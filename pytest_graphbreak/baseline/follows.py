"""What follows from the other numbers of an entry, and is not written in a file.

A graph runs once unless ``executions`` say otherwise, and then its operations run once, too. This
holds only for a layer that has ``ops``: other entries say nothing of what ran.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pytest_graphbreak.model.layers import LAYERS

CountsByKey = Mapping[str, Mapping[str, int]]


def usual_executions(layer: str, values: CountsByKey) -> int:
    """Return how often the graphs of a layer run if each runs once, or 0 if that is unknown."""
    graphs = values["graphs"].get(layer, 0)
    return graphs if values["ops"].get(layer) else 0


def usual_work(layer: str, values: CountsByKey) -> int:
    """Return how many operations run if all graphs run equally often, or 0 if that is unknown.

    A graph that was compiled again counts once in ``ops``, and runs as often as the others.
    """
    distinct = values["graphs"].get(layer, 0) - values["recompiles"].get(layer, 0)
    operations = values["ops"].get(layer, 0) * values["executions"].get(layer, 0)
    return operations // distinct if distinct > 0 else 0


USUAL: Final[Mapping[str, Callable[[str, CountsByKey], int]]] = {
    "executions": usual_executions,
    "work": usual_work,
}
"""The keys that are left out where they follow; ``work`` follows from ``executions``."""


def complete(written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a file with what follows from them; a written 0 is not known."""
    values = {key: {} for key in ("graphs", "recompiles", "ops", *USUAL)} | {**written}
    for key, usual in USUAL.items():
        counts = {layer: usual(layer, values) for layer in LAYERS} | {**values[key]}
        values[key] = {layer: count for layer, count in counts.items() if count}
    return {key: value for key, value in values.items() if value or key in written.keys() - USUAL}


def shorten(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values without what follows from the others, as the inverse of ``completed``."""
    written = {**values}
    for key, usual in USUAL.items():
        counts = {layer: values[key].get(layer, 0) for layer in LAYERS}
        written[key] = {
            layer: count for layer, count in counts.items() if count != usual(layer, values)
        }
    return written
