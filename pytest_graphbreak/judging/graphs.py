"""Finds new graphs, and the change that each of them belongs to.

Graphs of one cause, place and kind of reason are one change: ``same`` are those of a change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence

from pytest_graphbreak.judging import guards
from pytest_graphbreak.judging.folding import cause_keys, key_of
from pytest_graphbreak.judging.sides import Draft, Sides
from pytest_graphbreak.model.items import Graph
from pytest_graphbreak.model.layers import DESCRIPTIONS


def add_graphs(sides: Sides) -> None:
    """Add graphs that are new for a reason of their own, each place once.

    Breaks, recompiles and entries report most graphs of Dynamo. If the baseline does not know the
    causes of a layer that grew, all of its graphs are reported.
    """
    grown = sides.grown("graph")
    for layer in sides.after.layers:
        graphs = sides.after.graphs_of(layer)
        matched = sides.matched_graphs.get(layer)
        if matched is not None:
            added = set(map(id, matched.added))
            known = Counter(_alike(graph) for graph in graphs if id(graph) not in added)
            above_grew = DESCRIPTIONS[layer].above in grown
            reported = (g for g in matched.added if _is_reported(g, sides, above_grew=above_grew))
            for same in alike(reported):
                add_graph(sides, same, before=known[_alike(same[0])])
        elif layer in grown:
            for same in alike(graph for graph in graphs if has_own_reason(graph, sides)):
                add_graph(sides, same, before=None)


def add_graph(sides: Sides, same: Sequence[Graph], *, before: int | None) -> None:
    """Add graphs below the break that they follow from, else below a recompile above, if any."""
    parent = sides.draft_of(sides.folding.parent_of_graph(same[0]))
    parent = parent or _recompile_above(same[0], sides)
    _add(sides, same, before, parent)


def _add(
    sides: Sides,
    same: Sequence[Graph],
    before: int | None,
    parent: Draft | None = None,
    *,
    unsure: bool = False,
) -> None:
    after = (before or 0) + len(same)
    reason = guards.reason(graph.reason for graph in same)
    facts = {"cause": same[0].cause, "reason": reason, "unsure": unsure}
    sides.add("graph", same, before, after, parent, **facts)


def _recompile_above(graph: Graph, sides: Sides) -> Draft | None:
    """Return the recompile, of the layer above, of the graph that is lowered again."""
    if DESCRIPTIONS[graph.layer].above is None or graph.meaning.falls_with != "sources":
        return None
    again = (item for item in sides.after.recompile_list if item.graph in graph.sources)
    return next(filter(None, map(sides.draft_of, again)), None)


def has_own_reason(graph: Graph, sides: Sides) -> bool:
    """Return whether a graph has its own reason, and no break or recompile that explains it."""
    reported = graph.meaning.is_plain or graph.meaning.explained_by
    return not reported and (graph.layer, graph.name) not in sides.recompiled_graphs


def _is_reported(graph: Graph, sides: Sides, *, above_grew: bool) -> bool:
    """Return whether no other change explains this graph; a layer above that grew does."""
    cause = graph.meaning
    if (graph.layer, graph.name) in sides.recompiled_graphs:
        return False
    if cause.is_plain:  # an entry is reported by its function
        return DESCRIPTIONS[graph.layer].above is not None and not above_grew
    if cause.explained_by == "break":
        # If code is recompiled that was not, it may be the rest after a known break.
        added = (new for matched in sides.matched_graphs.values() for new in matched.added)
        again = any(new.is_repeat for new in added)
        return not (sides.new_breaks or sides.new_eager or again)
    return not cause.explained_by


def _alike(graph: Graph) -> Hashable:
    """Return the key of graphs that are reported as one."""
    return (graph.layer, graph.cause, guards.kind(graph.reason), *graph.where.key)


def _function(graph: Graph) -> Hashable:
    return graph.where.key, graph.process


def alike(graphs: Iterable[Graph], key: Callable[[Graph], Hashable] = _alike) -> list[list[Graph]]:
    """Return the graphs in groups, in order of first appearance."""
    groups: dict[Hashable, list[Graph]] = {}
    for graph in graphs:
        groups.setdefault(key(graph), []).append(graph)
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
            new = [graph for graph in matched.added if graph.is_entry]
            for same in alike(new, _function):
                through = sides.folding.break_through(same[0].where)
                _add(sides, same, 0, sides.draft_of(through))
        elif not sides.new_breaks:
            compiled, forbidden = _more_than_recompiled(layer.name, sides)
            for same in alike(compiled, _function):
                _add(sides, same, None if matched is None else 0, unsure=not forbidden)


def _more_than_recompiled(layer: str, sides: Sides) -> tuple[list[Graph], bool]:
    """Return the functions of a layer if recompiles do not explain its growth.

    And whether none of them is allowed.
    """
    totals = [total for total in sides.totals if total.layer == layer and total.growth > 0]
    growth = Counter[str]()
    for total in totals:
        # The baseline and the cap may have a total of one kind each.
        growth[total.kind] = max(total.growth, growth[total.kind])
    forbidden = any(total.kind == "graph" and total.before == 0 for total in totals)
    compiled = [graph for graph in sides.after.graphs_of(layer) if graph.is_entry]
    # One function alone is the one that is allowed, unless none is.
    if growth["graph"] > growth["recompile"] and (len(compiled) > 1 or forbidden):
        return compiled, forbidden
    return [], forbidden


def add_explained(sides: Sides) -> None:
    """Add the new graphs that another reported change explains, each below that change."""
    groups = [
        same
        for matched in sides.matched_graphs.values()
        for same in alike(graph for graph in matched.added if id(graph) not in sides.of_item)
    ]
    if not groups:
        return
    key_of_graph = cause_keys(sides.after)
    by_cause: dict[Hashable, Draft] = {}
    total_of: dict[tuple[str, str | None], Draft] = {}
    for draft in sides.drafts:
        if draft.change.total:
            total_of.setdefault((draft.change.kind, draft.change.layer), draft)
        for item in draft.items:
            by_cause.setdefault(key_of(item), draft)
    for same in groups:
        layer = same[0].layer
        parent = by_cause.get(key_of_graph[layer, same[0].name])
        for total in (
            ("graph", layer),
            ("recompile", layer),
            ("graph", DESCRIPTIONS[layer].above),
        ):
            parent = parent or total_of.get(total)
        parent = parent or next(iter(sides.drafts), None)
        if parent is not None:
            _add(sides, same, 0, parent)
