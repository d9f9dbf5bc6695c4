"""What follows from the other numbers of an entry, and is not written in a file.

A graph runs once unless ``executions`` say otherwise, and then its operations run once, too. This
holds only for a layer that has ``ops``: other entries say nothing of what ran.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_graphbreak.model.layers import LAYERS

FOLLOWING = ("executions", "work")
"""The keys that are left out where they follow, in the order in which they do."""


def follows(key: str, layer: str, values: Mapping[str, Mapping[str, int]]) -> int | None:
    """Return a count that follows from others of the same entry, or None if it does not.

    ``values`` has ``graphs``, ``recompiles``, ``ops`` and ``executions``. A graph that was compiled
    again counts once in ``ops``, and runs as often as the others.
    """
    graphs, ops = values["graphs"].get(layer, 0), values["ops"].get(layer)
    if not graphs or not ops:
        return None
    if key == "executions":
        return graphs
    runs, distinct = values["executions"].get(layer), graphs - values["recompiles"].get(layer, 0)
    return ops * runs // distinct if runs and distinct > 0 else None


def completed(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a file with what follows from them; a written 0 is not known."""
    values = {key: {} for key in ("graphs", "recompiles", "ops", *FOLLOWING)} | {**found}
    for key in FOLLOWING:
        counts = dict(values[key])
        for layer in LAYERS:
            if layer not in counts and (count := follows(key, layer, values)) is not None:
                counts[layer] = count
        values[key] = {layer: count for layer, count in counts.items() if count}
    keys = (*found, *(key for key in FOLLOWING if values[key]))
    return {key: values[key] for key in keys if key not in FOLLOWING or values[key]}


def shortened(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return values without what follows from the others, as the inverse of ``completed``."""
    written = {**found}
    for key in FOLLOWING:
        counts = {}
        for layer in LAYERS:
            count, usual = found[key].get(layer, 0), follows(key, layer, found)
            if count != (usual or 0):
                counts[layer] = count
        written[key] = counts
    return written
