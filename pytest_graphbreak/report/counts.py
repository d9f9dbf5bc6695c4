"""The numbers of graphs of a layer in words, with what makes them up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pytest_graphbreak.model.layer import GraphCause
from pytest_graphbreak.model.layers import BY_NAME, CAUSES, DESCRIPTIONS, JUDGED
from pytest_graphbreak.model.record import CACHED, Record
from pytest_graphbreak.text.output import plural


def decomposition(layer: str, *records: Record) -> Counter[str]:
    """Return the number of graphs of a layer by cause, in the order of ``CAUSES``."""
    return _tally("cause", CAUSES[layer], layer, records)


def cache_counts(layer: str, *records: Record) -> Counter[str]:
    """Return how many graphs were compiled, loaded or found, in the order of ``CACHED``."""
    return _tally("cached", CACHED, layer, records)


def _tally(field: str, order: Iterable[str], layer: str, records: Iterable[Record]) -> Counter[str]:
    graphs = (graph for record in records for graph in record.graph_list if graph.layer == layer)
    counted = Counter(getattr(graph, field) for graph in graphs)
    return Counter({name: counted[name] for name in order if counted[name]})


def cached_text(counted: Mapping[str, int]) -> str:
    """Return `` (compiled 3, loaded 1)`` to follow a number; empty if all were compiled."""
    if not set(counted) - {"compiled"}:
        return ""
    return f" ({', '.join(f'{name} {count:,}' for name, count in counted.items())})"


def cause_words(counted: Mapping[str, int]) -> list[str]:
    """Return each number of graphs with its cause: ``2 entries``, ``1 after a break``."""
    return [
        BY_NAME.get(cause, GraphCause(cause)).count_words(count) for cause, count in counted.items()
    ]


def made_of(layer: str, *records: Record) -> str:
    """Return the causes of a layer's graphs and the origin of their code; empty if unknown."""
    parts = " + ".join(cause_words(decomposition(layer, *records)))
    return f"{parts}{cached_text(cache_counts(layer, *records))}"


def layer_counts(
    layer: str, records: Sequence[Record], *, logged: bool = True, places: bool = False
) -> str:
    """Return the counts of a layer: ``14 graphs = 6 entries + 8 after a break; 3 graph breaks``.

    ``logged`` is False if a log has no Dynamo graphs. With ``places``, only distinct places count.
    """
    breaks = [item.where.key for record in records for item in record.breaks if item.layer == layer]
    eager = [item.where.key for record in records for item in record.eager if item.layer == layer]
    if places:
        breaks, eager = [*dict.fromkeys(breaks)], [*dict.fromkeys(eager)]
    graphs = sum(record.graphs.get(layer, 0) for record in records)
    text = plural(graphs, "graph") if logged else "graphs not logged"
    if parts := made_of(layer, *records):
        text += f" = {parts}"
    if DESCRIPTIONS[layer].breaks:
        recompiles = sum(record.recompiles.get(layer, 0) for record in records)
        text += f"; {plural(len(breaks), 'graph break')}, {plural(recompiles, 'recompile')}"
        if eager:
            name = "eager place" if places or layer not in JUDGED else "eager function"
            text += f", {plural(len(eager), name)}"
    return text
