"""What makes up a number of graphs: their causes, and where their code came from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from pytest_graphbreak.model.layer import GraphCause
from pytest_graphbreak.model.layers import BY_NAME, CAUSES
from pytest_graphbreak.model.record import CACHED, Record


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
