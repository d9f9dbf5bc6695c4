"""The differences of every count, place and cause, and the change that each belongs to.

``diff(before, after)`` is the only place where a record is compared: with the entry of a baseline
(``Expected``), with a limit in code (``Cap``), or with both. The verdict follows from its changes,
reports keep them, and texts select from them. Data in, data out.

It makes one ``Sides`` (``sides``), which has both sides, the layers that are ``judged`` and what is
new of breaks and graphs. The totals of ``totals`` are in it from the beginning. Then each function
in ``_DIFFERENCES`` looks for one kind of change and adds it there as a ``Draft``: a change whose
number is not known yet, below its ``parent`` if it follows from another change. ``number_drafts``
puts them into the order of the report: the totals, the separate changes, their consequences.

The number ``before`` of a change is 0 where something is known to be new, and None where nobody
knows how often it was there. A new kind of change is one more function in ``_DIFFERENCES``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from pytest_graphbreak.baseline.model import Expected
from pytest_graphbreak.judging import guards
from pytest_graphbreak.judging.folding import series_of
from pytest_graphbreak.judging.graphs import (
    add_entries,
    add_explained,
    add_graph,
    add_graphs,
    alike,
    has_own_reason,
)
from pytest_graphbreak.judging.runs import add_runs
from pytest_graphbreak.judging.sides import Draft, Sides, baseline_key, frame_of, number_drafts
from pytest_graphbreak.judging.totals import (
    compiled_graphs,
    limits,
    operations,
    runs_and_reads,
    totals,
)
from pytest_graphbreak.model.budget import PLACES_LAYER, Cap
from pytest_graphbreak.model.differences import Difference
from pytest_graphbreak.model.items import Eager, Frame, Recompile
from pytest_graphbreak.model.layers import DESCRIPTIONS
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.versions import UNKNOWN_VERSIONS, Versions, made_by, same_minor


def diff(
    before: Expected | None,
    after: Record,
    cap: Cap | None = None,
    *,
    versions: Versions = UNKNOWN_VERSIONS,
    packages: Mapping[str, str] = {},
    ops: bool = True,
    runs: bool = True,
) -> tuple[Difference, ...]:
    """Return the differences from ``before`` to ``after``, and the numbers that exceed ``cap``.

    With neither of them, every break is new. The ``versions`` of compilers and the ``packages``
    are those that made ``after``. Reasons are compared if the same minor version of the compiler
    gave them; captured operations if the packages are the same as well, and ``ops`` is true; runs
    and reads if ``runs`` is true.
    """
    judged = () if before is None else before.judged_layers(after.layers)
    numbers: list[Difference] = []
    if before is not None:
        comparable = [layer for layer in judged if before.counts_ops(layer, versions, packages)]
        numbers += totals(before, after, judged)
        numbers += operations(before, after, comparable) if ops else []
        numbers += runs_and_reads(before, after, judged) if runs else []
    numbers += [] if cap is None else limits(cap, after)
    if before is None and cap is not None and not numbers:
        return ()  # the cap is kept, and nothing else is compared
    sides = Sides(before, after, cap, versions, judged, totals=numbers)
    for add in _DIFFERENCES:
        add(sides)
    return number_drafts(sides.drafts, after)


def observed_changes(record: Record) -> tuple[Difference, ...]:
    """Return everything in a record that needs a reason, for a report without a judgement."""
    sides = Sides(
        before=None,
        after=record,
        cap=None,
        versions=UNKNOWN_VERSIONS,
        judged=(),
        totals=(),
    )
    _add_breaks(sides)
    _add_series(sides, record.recompile_list)
    _add_eager(sides, record.eager)
    graphs = (graph for graph in record.graph_list if has_own_reason(graph, sides))
    for same in alike(graph for graph in graphs if not graph.meaning.is_expected):
        add_graph(sides, same, before=None)
    return number_drafts(sides.drafts, record)


def _add_breaks(sides: Sides) -> None:
    """Add the new breaks, each below an earlier one that it follows from (``folding``)."""
    for item in sides.new_breaks:
        parent = sides.draft_of(sides.folding.parent_of_break(item))
        facts = {"reason": item.reason, "id": item.id}
        sides.add("break", (item,), sides.count_before_new, item.count, parent, **facts)


def _add_recompiles(sides: Sides, *, of_dynamo: bool) -> None:
    """Add the new recompiles of Dynamo, or those of the other layers.

    A recompile is new if the graph that it made is new. Where the graphs of its layer are not
    matched, nobody knows that, and all recompiles of a layer that grew are taken for new.
    """
    grown = sides.grown("graph", "recompile", "break")
    added = {
        (layer, graph.name)
        for layer, matched in sides.matched_graphs.items()
        for graph in matched.added
    }
    known = {(graph.layer, graph.name) for graph in sides.after.graph_list} - added

    def is_new(recompile: Recompile) -> bool:
        if recompile.layer in sides.matched_graphs:
            return (recompile.layer, recompile.graph) not in known
        return recompile.layer in grown

    recompiles = filter(is_new, sides.after.recompile_list)
    _add_series(sides, (item for item in recompiles if (item.layer == PLACES_LAYER) == of_dynamo))


def _add_series(sides: Sides, items: Iterable[Recompile]) -> None:
    """Add recompiles in series: those of one function by one guard are one change.

    Below each series are its followers, the functions that were recompiled because it calls them.
    """
    by_parent: dict[Draft | None, list[Recompile]] = {}
    for item in items:
        parent = sides.draft_of(sides.folding.parent_of_recompile(item))
        by_parent.setdefault(parent, []).append(item)
    for parent, recompiles in by_parent.items():
        for series in series_of(recompiles):
            # Only where graphs are matched it is known that a recompile was not there before.
            before = 0 if series.items[0].layer in sides.matched_graphs else None
            reason = guards.reason(item.reason for item in series.items)
            draft = sides.add(
                "recompile", series.items, before, len(series.items), parent, reason=reason
            )
            for same in series.followers.values():
                sides.add("recompile", same, before, len(same), draft, reason=same[0].reason)


def _add_eager(sides: Sides, items: Iterable[Eager]) -> None:
    for item in items:
        parent = sides.draft_of(sides.folding.parent_of_eager(item))
        before = sides.count_before_new
        sides.add("eager", (item,), before, item.count, parent, reason=item.reason)


def _add_gone_places(sides: Sides) -> None:
    """Add the breaks and eager places of the baseline that were not seen."""
    if sides.before is None:
        return
    values, after = sides.before.values, sides.after
    for kind, places, seen in (
        ("break", values.breaks, set(map(baseline_key, after.breaks))),
        ("eager", values.eager, set(map(baseline_key, after.eager))),
    ):
        for place in places:
            if place.layer in sides.judged and place.key not in seen:
                where, reason = frame_of(place.where, place.code), place.reason or ""
                change = Difference(kind, place.layer, where=where, reason=reason, id=place.id)
                sides.drafts.append(Draft(replace(change, before=place.count)))


def _add_gone_graphs(sides: Sides) -> None:
    """Add the causes of removed graphs.

    One that only a break makes (``explained_by``), or that a break cut off from its sources
    (``falls_with``), went with a change of a place: it is below the nearest one (``_distance``).
    """
    places = [
        draft
        for draft in sides.drafts
        if draft.change.kind in ("break", "eager") and not draft.change.total
    ]
    for layer, matched in sides.matched_graphs.items():
        for gone, remaining in matched.gone:
            where = frame_of(gone.where, gone.code)
            nearest = partial(_distance, where)
            cause = DESCRIPTIONS[layer].cause(gone.cause)
            follows = cause.explained_by or cause.falls_with == "sources"
            parent = min(places, key=nearest, default=None) if follows else None
            change = Difference("graph", layer, cause=gone.cause, where=where, before=gone.count)
            sides.drafts.append(Draft(replace(change, after=remaining), parent=parent))


def _distance(where: Frame, place: Draft) -> int:
    """Return how near a changed place is to a removed graph at ``where``; 0 is the nearest.

    A graph most likely went with a place of its own function that is gone as well (0), else with
    any place that is gone (1), else with another change (2).
    """
    if not place.change.is_less:
        return 2
    return int(place.change.where.function_key != where.function_key)


def _add_reworded(sides: Sides) -> None:
    """Add breaks for which the same compiler gives another reason than was recorded."""
    if sides.before is None:
        return
    recorded = {place.key: place for place in sides.before.values.breaks}
    recorded_with = sides.before.places_with("breaks")
    for item in sides.after.breaks:
        place, layer = recorded.get(baseline_key(item)), item.layer
        if place is None or layer not in sides.judged:
            continue
        same = same_minor(made_by(layer, sides.versions), made_by(layer, recorded_with))
        # An entry written by hand may omit reason and id, which then cannot be compared.
        if same and (place.id not in (None, item.id) or place.reason not in (None, item.reason)):
            was = place.id or place.reason or ""
            facts = {"reason": item.reason, "id": item.id, "was": was}
            sides.add("break", (item,), place.count, item.count, None, **facts)


def _fold_eager_graphs(sides: Sides) -> None:
    """Attach the graphs that lazy tensors make in place of a removed entry to its removal.

    If somebody removes ``torch.compile`` from a function, the next ``sync`` computes what its graph
    computed: a graph of the entry is gone, and one of the cause ``sync`` (``falls_with="call"``) is
    new. If Dynamo has more graphs, recompiles or breaks, the removal is not the only change, and
    the new graphs are reported by themselves.
    """
    removed = (
        draft for draft in sides.drafts if draft.change.kind == "graph" and draft.change.is_less
    )
    head = next((draft for draft in removed if draft.change.layer == PLACES_LAYER), None)
    if head is None or PLACES_LAYER in sides.grown("graph", "recompile", "break"):
        return
    for draft in sides.drafts:
        change = draft.change
        if change.kind != "graph" or not change.is_new or not change.layer:
            continue
        layer = DESCRIPTIONS[change.layer]
        if layer.above == PLACES_LAYER and layer.cause(change.cause).falls_with == "call":
            draft.parent = draft.parent or head


def _add_compiled(sides: Sides) -> None:
    """Add the graphs that were compiled where a cache should have had all of them."""
    for total in sides.totals:
        if total.kind == "compiled" and total.layer is not None:
            for same in alike(compiled_graphs(sides.after, total.layer)):
                facts = {"cause": same[0].cause, "reason": same[0].reason}
                sides.add("compiled", same, None, len(same), None, **facts)


_DIFFERENCES: Final[Sequence[Callable[[Sides], None]]] = (
    _add_breaks,
    partial(_add_recompiles, of_dynamo=True),
    add_graphs,
    add_entries,
    partial(_add_recompiles, of_dynamo=False),
    lambda sides: _add_eager(sides, sides.new_eager),
    _add_gone_places,
    _add_gone_graphs,
    _add_reworded,
    _fold_eager_graphs,
    add_runs,
    _add_compiled,
    add_explained,
)
"""The functions that look for changes, in the order in which changes are reported.

A change can only be put below one that is there already: breaks come first, and recompiles of
Dynamo before the graphs that other layers lowered again. ``add_explained`` comes last: it adds the
new graphs that no other function has reported.
"""
