"""What a failure tells: the breaks, frames, recompiles and graphs that the test is red for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pytest_graphbreak.judging.verdict import Verdict
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

    Those of dynamo are told by breaks and recompiles, but for the buckets of DDP.
    """
    grown = {step.layer for step in verdict.over if step.what == "graphs"}
    seen: set[tuple[str, ...]] = set()
    for graph in record.graph_list:
        if graph.layer not in grown or graph.cause == "fx":
            continue
        if graph.layer == "dynamo" and graph.cause != "bucket":
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
    growth = dict[str, int]()
    for step in verdict.over:
        if step.layer == "dynamo":
            growth[step.what] = max(step.growth, growth.get(step.what, 0))
    if verdict.added or growth.get("graphs", 0) <= growth.get("recompiles", 0):
        return
    compiled = [g for g in record.graph_list if (g.layer, g.cause) == ("dynamo", "entry")]
    places = Counter((graph.where.key, graph.process) for graph in compiled)
    if sum(places.values()) < 2:
        return
    for graph in compiled:
        if count := places.pop((graph.where.key, graph.process), 0):
            yield graph, count
