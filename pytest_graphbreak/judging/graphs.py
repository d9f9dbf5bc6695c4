"""Finds new graphs, and the change that each of them belongs to.

``difference`` calls the functions ``add_...``, in its order. Each takes the ``Sides`` of a
comparison (``sides``): the baseline is ``before``, the record ``after``, and ``matched_graphs`` has
for each layer the graphs that the baseline does not know (``matching``). What a function finds, it
adds there as a ``Draft``: a change, with the items that it is about, below its parent if another
change explains it. The cause of a graph says by which change a new one is reported::

    the rest of a function after a break    the break; add_graphs if no break is new
    made by a recompile                     the recompile
    an entry: a function was called         add_entries
    a copy of a graph in the layer above    the change there; add_graphs if that layer did not grow
    a split, a sync, ...                    add_graphs

``add_explained`` comes last, and puts the graphs that have no change yet below the one that
explains them. Graphs of one cause, place and kind of reason are one change: ``same`` are the graphs
of a change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence

from pytest_graphbreak.judging import guards
from pytest_graphbreak.judging.attribution import cause_keys, key_of
from pytest_graphbreak.judging.sides import Draft, Sides
from pytest_graphbreak.model.items import Graph
from pytest_graphbreak.model.layers import DESCRIPTIONS


def add_graphs(sides: Sides) -> None:
    """Add graphs that are new for a reason of their own, each place once.

    If the baseline does not know the causes of a layer that grew, nobody knows which graphs are
    new: all that need a reason are reported.
    """
    grown = sides.grown("graph")
    for layer in sides.after.layers:
        graphs = sides.after.graphs_of(layer)
        matched = sides.matched_graphs.get(layer)
        if matched is not None:
            added = set(map(id, matched.added))
            known = Counter(_change_key(graph) for graph in graphs if id(graph) not in added)
            above_grew = DESCRIPTIONS[layer].above in grown
            reported = (g for g in matched.added if _is_reported(g, sides, above_grew=above_grew))
            for same in alike(reported):
                add_graph(sides, same, before=known[_change_key(same[0])])
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
    if DESCRIPTIONS[graph.layer].above is None:
        return None
    # Only graphs that fall with their sources follow from what happened to these.
    if graph.meaning.falls_with != "sources":
        return None
    again = (item for item in sides.after.recompile_list if item.graph in graph.sources)
    return next(filter(None, map(sides.draft_of, again)), None)


def has_own_reason(graph: Graph, sides: Sides) -> bool:
    """Return whether a graph is reported where it is not known which graphs are new.

    It is if it needs a reason of its own: it is not plain, and no break or recompile explains it.
    Where it is known that a graph is new, ``_is_reported`` is asked instead.
    """
    needs_no_reason = graph.meaning.is_plain or graph.meaning.explained_by
    return not needs_no_reason and (graph.layer, graph.name) not in sides.recompiled_graphs


def _is_reported(graph: Graph, sides: Sides, *, above_grew: bool) -> bool:
    """Return whether ``add_graphs`` reports a graph that is known to be new.

    It does not if another change explains the graph, or if another function reports it.
    ``above_grew``: the layer above has more graphs than before.
    """
    cause = graph.meaning
    if (graph.layer, graph.name) in sides.recompiled_graphs:  # the recompile is reported
        return False
    if cause.is_plain:
        # ``add_entries`` reports the new functions of a layer without one above. Below that, a
        # plain graph is the copy of one above, and needs a report only if that layer did not grow.
        return DESCRIPTIONS[graph.layer].above is not None and not above_grew
    if cause.explained_by == "break":
        # The graph is the rest of a function after a break. If the break is new, it is reported
        # instead. If it is known, a recompile of the function makes its rest again: ``f`` breaks in
        # the middle as before, and is recompiled for another shape, first half and second.
        added = (new for matched in sides.matched_graphs.values() for new in matched.added)
        again = any(new.is_repeat for new in added)
        return not (sides.new_breaks or sides.new_eager or again)
    return not cause.explained_by


def _change_key(graph: Graph) -> Hashable:
    """Return the key of graphs that are one change."""
    return (graph.layer, graph.cause, guards.kind(graph.reason), *graph.where.key)


def _function_key(graph: Graph) -> Hashable:
    """Return the key of entries that are one change: a function, in each process by itself."""
    return graph.where.key, graph.process


def alike(
    graphs: Iterable[Graph], key: Callable[[Graph], Hashable] = _change_key
) -> list[list[Graph]]:
    """Return the graphs of each change, in order of first appearance."""
    groups: dict[Hashable, list[Graph]] = {}
    for graph in graphs:
        groups.setdefault(key(graph), []).append(graph)
    return list(groups.values())


def add_entries(sides: Sides) -> None:
    """Add the functions that are newly compiled, and how often, on the layers of the user's code.

    ::

        it is known which are new          each new one, below a break that runs through it
        else: a break is new               none: the break explains that there are more
        else: as many recompiles are new   none: these do (``_more_than_recompiled``)
        else                               all, and any may be new (``unsure``); all are new if none
                                           is allowed
    """
    for layer in DESCRIPTIONS.values():
        if layer.above is not None:
            continue
        matched = sides.matched_graphs.get(layer.name)
        if matched is not None and not matched.unsure:
            new = [graph for graph in matched.added if graph.is_entry]
            for same in alike(new, _function_key):
                through = sides.folding.break_through(same[0].where)
                _add(sides, same, 0, sides.draft_of(through))
        elif not sides.new_breaks:
            compiled, forbidden = _more_than_recompiled(layer.name, sides)
            # If the layer is matched, the baseline names none of these functions: it had 0 graphs
            # of each.
            before = None if matched is None else 0
            for same in alike(compiled, _function_key):
                _add(sides, same, before, unsure=not forbidden)


def _more_than_recompiled(layer: str, sides: Sides) -> tuple[list[Graph], bool]:
    """Return the functions of a layer, if recompiles do not explain its growth.

    The second result is whether none of them is allowed. Under ``max_graphs(1, recompiles=0)``,
    two functions and a recompile of one are 2 graphs and 1 recompile too many: recompiles explain
    one graph, so one function is too many as well. If only one function was compiled, it is the
    one that is allowed; under ``max_graphs(0)`` it is not.
    """
    totals = [total for total in sides.totals if total.layer == layer and total.growth > 0]
    growth = Counter[str]()
    for total in totals:
        # A kind has up to two totals: what exceeds the baseline, and what exceeds the cap.
        growth[total.kind] = max(total.growth, growth[total.kind])
    forbidden = any(total.kind == "graph" and total.before == 0 for total in totals)
    compiled = [graph for graph in sides.after.graphs_of(layer) if graph.is_entry]
    if growth["graph"] > growth["recompile"] and (len(compiled) > 1 or forbidden):
        return compiled, forbidden
    return [], forbidden


def add_explained(sides: Sides) -> None:
    """Add the new graphs that another reported change explains, each below that change.

    The parent is the change about the cause of the graph: the break, recompile or graph above for
    which ``attribution.cause_keys`` counts it. If no change is about that, the parent is a total:
    of the graphs or the recompiles of the layer, or of the graphs above. If there is none either,
    it is the first change: a graph is always shown with something.
    """
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
