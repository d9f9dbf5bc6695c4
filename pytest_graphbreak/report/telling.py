"""What a failure tells: the breaks, frames, recompiles and graphs that the test is red for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pytest_graphbreak.judging.verdict import Verdict
from pytest_graphbreak.model.layer import Layer
from pytest_graphbreak.model.layers import KNOWN
from pytest_graphbreak.model.record import Graph, Recompile, Record
from pytest_graphbreak.report.fallen import Sorted, sort


def told(verdict: Verdict, record: Record) -> Sorted:
    """What is new, each break with what fell with it."""
    return sort(
        record,
        verdict.added,
        verdict.left,
        recompiles(verdict, record),
        graphs(verdict, record),
    )


def graphs(verdict: Verdict, record: Record) -> Iterator[Graph]:
    """Graphs that exist for a reason of their own, where their layer grew.

    Most of dynamo are told by breaks and recompiles.
    """
    grown = {step.layer for step in verdict.over if step.what == "graphs"}
    seen: set[tuple[str, ...]] = set()
    for graph in record.graph_list:
        cause = KNOWN[graph.layer].cause(graph.cause)
        if graph.layer not in grown or cause.is_plain or cause.told_by:
            continue
        key = (graph.layer, graph.cause, graph.reason, *graph.where.key)
        if key not in seen:
            seen.add(key)
            yield graph


def recompiles(verdict: Verdict, record: Record) -> Iterator[Recompile]:
    """The recompiles of the layers that grew."""
    grown = {step.layer for step in verdict.over}
    return (item for item in record.recompile_list if item.layer in grown)


def entries(verdict: Verdict, record: Record) -> Iterator[tuple[Graph, int]]:
    """The functions that were compiled, and how often, where nothing else tells why there are more.

    A baseline has counts and no names of these, so which of them is new is not known.
    """
    if not verdict.added:
        for layer in KNOWN.values():
            if layer.above is None:  # of a layer below, the one above tells
                yield from _entries(layer, verdict, record)


def _entries(layer: Layer, verdict: Verdict, record: Record) -> Iterator[tuple[Graph, int]]:
    growth = dict[str, int]()
    for step in verdict.over:
        if step.layer == layer.name:
            growth[step.what] = max(step.growth, growth.get(step.what, 0))
    if growth.get("graphs", 0) <= growth.get("recompiles", 0):
        return
    graphs = (graph for graph in record.graph_list if graph.layer == layer.name)
    compiled = [graph for graph in graphs if layer.cause(graph.cause).is_plain]
    places = Counter((graph.where.key, graph.process) for graph in compiled)
    if sum(places.values()) < 2:
        return
    for graph in compiled:
        if count := places.pop((graph.where.key, graph.process), 0):
            yield graph, count
