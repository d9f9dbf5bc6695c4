"""What a failure tells: the breaks, frames, recompiles and graphs that the test is red for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from pytest_graphbreak.judging.causes import Moved
from pytest_graphbreak.judging.verdict import Verdict
from pytest_graphbreak.model.budget import Cause
from pytest_graphbreak.model.layer import Layer
from pytest_graphbreak.model.layers import DESCRIPTIONS
from pytest_graphbreak.model.record import Graph, Recompile, Record
from pytest_graphbreak.report.fallen import Sorted, sort


def found(verdict: Verdict, record: Record) -> Sorted:
    """What is new, each break with what fell with it."""
    return sort(
        record,
        verdict.added,
        verdict.left,
        recompiles(verdict, record),
        graphs(verdict, record),
    )


def graphs(verdict: Verdict, record: Record) -> Iterator[Graph]:
    """Graphs that exist for a reason of their own and are new, each place once.

    Most of dynamo are told by breaks, recompiles and entries. Where the baseline does not know
    the causes of a layer that grew, all of its graphs are told.
    """
    grown = {step.layer for step in verdict.over if step.what == "graphs"}
    moved = _moved(verdict)
    seen: set[tuple[str, ...]] = set()
    for layer in record.layers:
        if layer in moved:
            found = [
                g
                for g in moved[layer].added
                if _stands_alone(g, verdict, DESCRIPTIONS[layer].above in grown)
            ]
        elif layer in grown:
            found = [graph for graph in record.graph_list if graph.layer == layer]
            found = [graph for graph in found if _has_own_reason(graph)]
        else:
            continue
        for graph in found:
            if (key := kind(graph)) not in seen:
                seen.add(key)
                yield graph


def kind(graph: Graph) -> tuple[str, ...]:
    """What graphs have in common that are told as one."""
    return (graph.layer, graph.cause, graph.reason, *graph.where.key)


def times(verdict: Verdict, record: Record) -> Counter[tuple[str, ...]]:
    """How many new graphs there are of each kind: all, where a baseline does not know them."""
    compared = {moved.layer for moved in verdict.causes}
    found = Counter(kind(graph) for moved in verdict.causes for graph in moved.added)
    found.update(kind(graph) for graph in record.graph_list if graph.layer not in compared)
    return found


def _moved(verdict: Verdict) -> dict[str, Moved]:
    """The layers whose causes are told: those with a count that moved; without any, all."""
    layers = {step.layer for step in (*verdict.over, *verdict.lost)}
    return {
        item.layer: item for item in verdict.causes if item.layer in layers or not layers - {None}
    }


def _has_own_reason(graph: Graph) -> bool:
    """Whether a graph has a reason of its own, and no break or recompile that tells it."""
    cause = DESCRIPTIONS[graph.layer].cause(graph.cause)
    return not (cause.is_plain or cause.explained_by)


def _stands_alone(graph: Graph, verdict: Verdict, above: bool) -> bool:
    """Whether nothing else that is told makes this new graph; ``above``: more came from there."""
    layer = DESCRIPTIONS[graph.layer]
    cause = layer.cause(graph.cause)
    if cause.is_plain:  # an entry is told by its function
        return layer.above is not None and not above
    if cause.explained_by == "break":
        return not (verdict.added or verdict.left)
    return not cause.explained_by


def gone(verdict: Verdict) -> Iterator[Cause]:
    """The causes of graphs that are there no longer, where no place that is gone tells it."""
    places = verdict.added or verdict.gone or verdict.left or verdict.returned
    for moved in _moved(verdict).values():
        for item in moved.gone:
            cause = DESCRIPTIONS[item.layer].cause(item.cause)
            follows = cause.explained_by or cause.falls_with == "sources"
            if not (follows and places):
                yield item


def partly_matched(verdict: Verdict) -> Iterator[Moved]:
    """The layers of which some graphs are known and some are not."""
    for moved in _moved(verdict).values():
        if moved.was and moved.matched < moved.measured:
            yield moved


def recompiles(verdict: Verdict, record: Record) -> Iterator[Recompile]:
    """The recompiles of the layers that grew, without those that the baseline knows."""
    grown = {step.layer for step in verdict.over}
    moved = _moved(verdict)
    recorded_before = {(one.layer, one.name) for one in record.graph_list if one.layer in moved}
    recorded_before -= {(one.layer, one.name) for item in moved.values() for one in item.added}
    for item in record.recompile_list:
        if item.layer in moved:
            if (item.layer, item.graph) not in recorded_before:
                yield item
        elif item.layer in grown:
            yield item


def entries(verdict: Verdict, record: Record) -> Iterator[tuple[str, Graph, int]]:
    """The functions that are compiled and were not, with a sign, and how often.

    ``*`` in place of ``+``: which of them are new is not known. They are told then where
    nothing else tells why there are more. Where none is allowed all of them are new.
    """
    moved = _moved(verdict)
    for layer in DESCRIPTIONS.values():
        if layer.above is not None:  # of a layer below, the one above tells
            continue
        of = moved.get(layer.name)
        if of is not None and not of.unsure:
            new = [graph for graph in of.added if layer.cause(graph.cause).is_plain]
            stacks = [(*item.stack, item.where) for item in verdict.added]
            broken = {frame.key[:2] for stack in stacks for frame in stack}
            found = _counted(graph for graph in new if graph.where.key[:2] not in broken)
            yield from (("+", graph, count) for graph, count in found)
        elif not verdict.added:
            sign = "+" if _is_forbidden(layer, verdict) else "*"
            yield from ((sign, graph, count) for graph, count in _all(layer, verdict, record))


def _is_forbidden(layer: Layer, verdict: Verdict) -> bool:
    """Whether the layer may have no graph at all."""
    return any(
        step.layer == layer.name and step.what == "graphs" and not step.allowed
        for step in verdict.over
    )


def _all(layer: Layer, verdict: Verdict, record: Record) -> Iterator[tuple[Graph, int]]:
    growth = dict[str, int]()
    for step in verdict.over:
        if step.layer == layer.name:
            growth[step.what] = max(step.growth, growth.get(step.what, 0))
    if growth.get("graphs", 0) <= growth.get("recompiles", 0):
        return
    graphs = (graph for graph in record.graph_list if graph.layer == layer.name)
    compiled = [graph for graph in graphs if layer.cause(graph.cause).is_plain]
    if len(compiled) > 1 or _is_forbidden(layer, verdict):
        yield from _counted(compiled)


def _counted(graphs: Iterable[Graph]) -> Iterator[tuple[Graph, int]]:
    graphs = list(graphs)
    places = Counter((graph.where.key, graph.process) for graph in graphs)
    for graph in graphs:
        if count := places.pop((graph.where.key, graph.process), 0):
            yield graph, count
