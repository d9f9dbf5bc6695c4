"""Finds new graphs, and the change that each of them belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pytest_graphbreak.judging import guards
from pytest_graphbreak.judging.causes import cause_keys, key_of
from pytest_graphbreak.judging.sides import Draft, Sides
from pytest_graphbreak.model.differences import Difference
from pytest_graphbreak.model.layer import GraphCause
from pytest_graphbreak.model.layers import DESCRIPTIONS
from pytest_graphbreak.model.record import Graph


def add_graphs(sides: Sides) -> None:
    """Add graphs that are new for a reason of their own, each place once.

    Breaks, recompiles and entries report most graphs of Dynamo. If the baseline does not know the
    causes of a layer that grew, all of its graphs are reported.
    """
    grown = sides.grown("graph")
    for layer in sides.after.layers:
        graphs = [graph for graph in sides.after.graph_list if graph.layer == layer]
        matched = sides.matched_graphs.get(layer)
        if matched is not None:
            new = set(map(id, matched.added))
            above = DESCRIPTIONS[layer].above in grown
            for same in alike(
                graph for graph in matched.added if _is_reported(graph, sides, above)
            ):
                total = sum(_group_key(graph) == _group_key(same[0]) for graph in graphs)
                before = total - sum(
                    id(graph) in new and _group_key(graph) == _group_key(same[0])
                    for graph in graphs
                )
                add_graph(sides, same, before)
        elif layer in grown:
            unexplained = (graph for graph in graphs if has_own_reason(graph, sides))
            for same in alike(unexplained):
                add_graph(sides, same, None)


def add_graph(sides: Sides, same: Sequence[Graph], before: int | None) -> None:
    parent = sides.draft_of(sides.folding.parent_of_graph(same[0])) or _recompile_above(
        same[0], sides
    )
    sides.add(_graphs_difference(same, before), same, parent)


def _recompile_above(graph: Graph, sides: Sides) -> Draft | None:
    """Return the recompile, of the layer above, of the graph that is lowered again."""
    if DESCRIPTIONS[graph.layer].above is None or cause_of(graph).falls_with != "sources":
        return None
    recompiles = (sides.of_recompiled.get(name) for name in graph.sources)
    return next(filter(None, recompiles), None)


def _graphs_difference(
    same: Sequence[Graph], before: int | None, *, unsure: bool = False
) -> Difference:
    first = same[0]
    return Difference(
        "graph",
        first.layer,
        cause=first.cause,
        where=first.where,
        reason=guards.reason(graph.reason for graph in same),
        before=before,
        after=(before or 0) + len(same),
        unsure=unsure,
    )


def cause_of(graph: Graph) -> GraphCause:
    return DESCRIPTIONS[graph.layer].cause(graph.cause)


def has_own_reason(graph: Graph, sides: Sides) -> bool:
    """Return whether a graph has its own reason, and no break or recompile that explains it."""
    reported = cause_of(graph).is_plain or cause_of(graph).explained_by
    return not reported and (graph.layer, graph.name) not in sides.recompiled_graphs


def _is_reported(graph: Graph, sides: Sides, above: bool) -> bool:
    """Return whether no other change explains this graph; ``above``: the layer above grew."""
    cause = cause_of(graph)
    if (graph.layer, graph.name) in sides.recompiled_graphs:
        return False
    if cause.is_plain:  # an entry is reported by its function
        return DESCRIPTIONS[graph.layer].above is not None and not above
    if cause.explained_by == "break":
        return not (sides.new_breaks or sides.new_eager or _again(sides))
    return not cause.explained_by


def _again(sides: Sides) -> bool:
    """Return whether code is recompiled that was not: it may be the rest after a known break."""
    added = (graph for matched in sides.matched_graphs.values() for graph in matched.added)
    return any(cause_of(graph).kind == "repeat" for graph in added)


def _group_key(graph: Graph) -> tuple[str, ...]:
    """Return the key of graphs that are reported as one."""
    return (graph.layer, graph.cause, guards.kind(graph.reason), *graph.where.key)


def alike(graphs: Iterable[Graph]) -> list[list[Graph]]:
    groups: dict[tuple[str, ...], list[Graph]] = {}
    for graph in graphs:
        groups.setdefault(_group_key(graph), []).append(graph)
    return list(groups.values())


def add_entries(sides: Sides) -> None:
    """Add the functions that are newly compiled, marked as sure or unsure, and how often.

    It may be unknown which of them are new. Then they are reported if nothing else explains why
    there are more. If none is allowed, all of them are new.
    """
    for layer in DESCRIPTIONS.values():
        if layer.above is not None:  # graphs of a lower layer are explained by the layer above
            continue
        matched = sides.matched_graphs.get(layer.name)
        if matched is not None and not matched.unsure:
            new = [graph for graph in matched.added if cause_of(graph).is_plain]
            for same in _group_by_place(new):
                parent = sides.draft_of(sides.folding.break_through(same[0].where))
                sides.add(_graphs_difference(same, 0), same, parent)
        elif not sides.new_breaks:
            forbidden = _is_forbidden(layer.name, sides.totals)
            for same in _compiled_functions(layer.name, sides, forbidden):
                before = None if matched is None else 0
                sides.add(_graphs_difference(same, before, unsure=not forbidden), same)


def _is_forbidden(layer: str, totals: Iterable[Difference]) -> bool:
    """Return whether the layer may have no graph at all."""
    return any(
        (total.layer, total.kind, total.before) == (layer, "graph", 0) and total.growth > 0
        for total in totals
    )


def _compiled_functions(layer: str, sides: Sides, forbidden: bool) -> Iterator[list[Graph]]:
    """Yield all functions that were compiled, if they are more than recompiles explain."""
    growth = {"graph": 0, "recompile": 0}
    for total in sides.totals:
        if total.layer == layer and total.kind in growth:
            growth[total.kind] = max(total.growth, growth[total.kind])
    if growth["graph"] > growth["recompile"]:
        graphs = (graph for graph in sides.after.graph_list if graph.layer == layer)
        compiled = [graph for graph in graphs if cause_of(graph).is_plain]
        if len(compiled) > 1 or forbidden:
            yield from _group_by_place(compiled)


def _group_by_place(graphs: Iterable[Graph]) -> list[list[Graph]]:
    groups: dict[object, list[Graph]] = {}
    for graph in graphs:
        groups.setdefault((graph.where.key, graph.process), []).append(graph)
    return list(groups.values())


def add_explained(sides: Sides) -> None:
    """Add the new graphs that another reported change explains, each below that change."""
    reported = {id(item) for draft in sides.drafts for item in draft.items}
    groups = [
        same
        for matched in sides.matched_graphs.values()
        for same in alike(graph for graph in matched.added if id(graph) not in reported)
    ]
    if not groups:
        return
    made_for = cause_keys(sides.after)
    draft_of: dict[object, Draft] = {}
    for draft in sides.drafts:
        for item in draft.items:
            draft_of.setdefault(key_of(item), draft)
    for same in groups:
        first = same[0]
        parent = draft_of.get(made_for[first.layer, first.name])
        above = DESCRIPTIONS[first.layer].above
        parent = parent or sides.total(first.layer, "graph", "recompile")
        parent = parent or sides.total(above, "graph") or next(iter(sides.drafts), None)
        if parent is not None:
            sides.add(_graphs_difference(same, 0), same, parent)
