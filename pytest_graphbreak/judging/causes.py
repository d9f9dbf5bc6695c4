"""Why there are the graphs of a layer: what a baseline writes of it, and what is new, gone, known.

A plain graph needs no explanation and is not written: the only ``entry`` of a layer that takes
the user's code, and a graph of the layer above that was lowered whole (``fx``). Pure data in,
pure data out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from pytest_graphbreak.baseline.model import Expected
from pytest_graphbreak.model.budget import Cause, place_key
from pytest_graphbreak.model.layers import CAUSES, DESCRIPTIONS
from pytest_graphbreak.model.record import Frame, Graph, Record


@dataclass(frozen=True, slots=True)
class MatchedGraphs:
    """The graphs of one layer beside those of the baseline.

    ``added`` are those that were not there, one by one, ``gone`` the causes that are there no
    longer, each with how many were recorded and how many are left. ``unsure``: a function more is
    compiled, and which of several is the one that was recorded is not known; all of them are
    in ``added`` then.
    """

    added: tuple[Graph, ...] = ()
    gone: tuple[tuple[Cause, int], ...] = ()
    unsure: bool = False


def place_of(where: Frame) -> tuple[str, str]:
    """The identity of a place as a baseline writes it: ``where`` and normalised ``code``."""
    return place_key(_name(where), where.code)


def causes(record: Record) -> tuple[Cause, ...]:
    """Why there are the graphs that are not plain, each cause and place once."""
    found: Counter[Cause] = Counter()
    for layer in record.graphs:
        if record.is_explained(layer):
            graphs = [graph for graph in record.graph_list if graph.layer == layer]
            single = sum(map(_is_entry, graphs)) == 1
            found.update(
                cause_of(graph)
                for graph in graphs
                if not (is_lowered(graph) or (single and _is_entry(graph)))
                if graph.cause in CAUSES[layer]  # a report of a later version may have others
            )
    return tuple(replace(item, count=count) for item, count in found.items())


def match(record: Record, expected: Expected, layer: str) -> MatchedGraphs | None:
    """What became of the graphs of a layer; None where either side does not know their causes."""
    recorded = expected.values.causes_of(layer)
    if recorded is None or not record.is_explained(layer):
        return None
    graphs = [graph for graph in record.graph_list if graph.layer == layer]
    left = Counter({item.key: item.count for item in recorded})
    added: list[Graph] = []
    plain: list[Graph] = []
    for graph in graphs:
        key = cause_of(graph).key
        if left[key]:
            left[key] -= 1
        elif _is_entry(graph) or is_lowered(graph):
            plain.append(graph)
        else:
            added.append(graph)
    was = expected.values.graphs.get(layer, 0)
    unsure = False
    if unnamed := was - sum(item.count for item in recorded):
        if DESCRIPTIONS[layer].above is None:
            known = _recorded_entry(plain, expected)
            unsure = known is None and len(plain) > 1 and not expected.values.functions
            plain = [graph for graph in plain if graph is not known]
        else:
            plain = plain[unnamed:]
    added += plain
    gone = ((item, item.count - left[item.key]) for item in recorded if left[item.key])
    return MatchedGraphs(tuple(added), tuple(gone), unsure)


def _recorded_entry(entries: Sequence[Graph], expected: Expected) -> Graph | None:
    """The one of several functions that was compiled when the baseline was recorded.

    Its name is not among the causes, but among the functions that hold operations.
    """
    if len(entries) == 1:
        return entries[0]
    names = expected.values.functions
    return next((graph for graph in entries if _name(graph.where) in names), None)


def _is_entry(graph: Graph) -> bool:
    """Whether a graph is a function that was compiled as it was called."""
    layer = DESCRIPTIONS[graph.layer]
    return layer.above is None and layer.cause(graph.cause).is_plain


def is_lowered(graph: Graph) -> bool:
    """Whether a graph is one of the layer above, lowered whole."""
    layer = DESCRIPTIONS[graph.layer]
    return layer.above is not None and layer.cause(graph.cause).is_plain and bool(graph.sources)


def cause_of(graph: Graph) -> Cause:
    """Why there is this graph, as a baseline writes it."""
    return Cause(graph.layer, graph.cause, *place_of(graph.where))


def _name(where: Frame) -> str:
    return f"{where.file}::{where.function}" if where.function else where.file
