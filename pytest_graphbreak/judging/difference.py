"""What is otherwise than it was: every count, place and cause, and what each happened with.

``diff(before, after)`` is the one place where a record is held against anything: the verdict is
read off its changes, reports keep them, and texts choose among them. Pure data in, pure data out.

The totals come first, then what stands for itself in the order in which it is told, then what
happened with one of these (``Difference.parent``). A new kind of change is one more function in
``_DIFFERENCES``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from pytest_graphbreak.baseline.model import Expected
from pytest_graphbreak.judging.attribution import Attribution, key_of
from pytest_graphbreak.judging.causes import MatchedGraphs, match, place_of
from pytest_graphbreak.judging.folding import Folding
from pytest_graphbreak.judging.repeats import Repeats, series
from pytest_graphbreak.judging.totals import captured, forbidden, limits, totals
from pytest_graphbreak.model.budget import PLACES_LAYER, BaselinePlace, Cap
from pytest_graphbreak.model.differences import LISTS, Difference, Item
from pytest_graphbreak.model.layer import GraphCause
from pytest_graphbreak.model.layers import DESCRIPTIONS, made_by
from pytest_graphbreak.model.record import Break, Eager, Frame, Graph, Recompile, Record
from pytest_graphbreak.model.versions import UNKNOWN, Versions, same_minor

NONE: Final[Mapping[str, str]] = {}


def diff(
    before: Expected | None,
    after: Record,
    cap: Cap | None = None,
    *,
    versions: Versions = UNKNOWN,
    packages: Mapping[str, str] = NONE,
    ops: bool = True,
) -> tuple[Difference, ...]:
    """What of ``after`` is otherwise than ``before``, and which numbers pass ``cap``.

    Without both every break is there anew. ``versions`` of compilers and ``packages`` are those
    that made ``after``: reasons are compared only with those of the same minor version of a
    compiler, captured operations also only with the same packages, and only where ``ops`` are asked
    for.
    """
    numbers = [] if before is None else [*totals(before, after)]
    numbers += captured(before, after, versions, packages) if before is not None and ops else []
    numbers += [] if cap is None else limits(cap, after)
    if before is None and cap is not None and not numbers:
        return ()
    sides = _Sides(before, after, cap, versions, numbers, ops)
    for add in _DIFFERENCES:
        add(sides)
    return _numbered(sides.drafts, after)


def observed(record: Record) -> tuple[Difference, ...]:
    """All that a record has to say, where nobody knows what was before."""
    sides = _Sides(None, record, None, UNKNOWN, [])
    _add_breaks(sides)
    sides.add_recompiles(record.recompile_list)
    sides.add_eager(record.eager, None)
    own = (graph for graph in record.graph_list if _has_own_reason(graph))
    for same in _alike(graph for graph in own if not _cause(graph).is_meant):
        _add_graph(sides, same, None)
    return _numbered(sides.drafts, record)


@dataclass(eq=False, slots=True)
class _Draft:
    """A change whose number, and whose parent's, is not known yet."""

    change: Difference
    items: Sequence[Item] = ()
    parent: _Draft | None = None


@dataclass(eq=False)
class _Sides:
    """Both sides, and the changes that were found so far."""

    before: Expected | None
    after: Record
    cap: Cap | None
    versions: Versions
    totals: list[Difference]
    ops: bool = True
    drafts: list[_Draft] = field(default_factory=list)
    of_break: dict[int, _Draft] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.drafts += [_Draft(total) for total in self.totals]

    @cached_property
    def judged(self) -> tuple[str, ...]:
        return () if self.before is None else self.before.judged(self.after.layers)

    @cached_property
    def matched(self) -> Mapping[str, MatchedGraphs]:
        """The layers of which both sides know why there are the graphs."""
        if self.before is None:
            return {}
        found = ((layer, match(self.after, self.before, layer)) for layer in self.judged)
        return {layer: one for layer, one in found if one is not None}

    @cached_property
    def new_breaks(self) -> tuple[Break, ...]:
        if self.before is None:
            return self.after.breaks
        known = {item.key for item in self.before.values.breaks}
        return tuple(
            item
            for item in self.after.breaks
            if item.layer in self.judged and _key(item) not in known
        )

    @cached_property
    def new_eager(self) -> tuple[Eager, ...]:
        if self.before is None:
            return () if self.cap is None else forbidden(self.cap, self.after)
        known = {item.key for item in self.before.values.eager}
        return tuple(
            item
            for item in self.after.eager
            if item.layer in self.judged and _key(item) not in known
        )

    @cached_property
    def folding(self) -> Folding:
        return Folding(self.after, self.new_breaks)

    @property
    def nothing(self) -> int | None:
        """How many of what is new there were before: none, or nobody knows."""
        return None if self.before is None else 0

    def grown(self, kind: str | None = None) -> AbstractSet[str | None]:
        """The layers of which a total grew that may not, of one kind or of any."""
        kinds = ("graph", "recompile", "break") if kind is None else (kind,)
        return {one.layer for one in self.totals if one.kind in kinds and one.growth > 0}

    def total(self, layer: str | None, *kinds: str) -> _Draft | None:
        """The total of a layer, of the first of these kinds that has one."""
        return next(
            (
                draft
                for kind in kinds
                for draft in self.drafts
                if draft.change.total and (draft.change.kind, draft.change.layer) == (kind, layer)
            ),
            None,
        )

    def add(
        self, change: Difference, items: Sequence[Item] = (), parent: _Draft | None = None
    ) -> None:
        self.drafts.append(_Draft(change, items, parent))

    def under(self, item: Break | None) -> _Draft | None:
        return None if item is None else self.of_break[id(item)]

    def add_eager(self, items: Iterable[Eager], before: int | None) -> None:
        for item in items:
            change = Difference("eager", item.layer, where=item.where, reason=item.reason)
            change = replace(change, before=before, after=item.count)
            self.add(change, (item,), self.under(self.folding.of_eager(item)))

    def add_recompiles(self, items: Iterable[Recompile]) -> None:
        """Each series with the functions that were compiled again as it calls them."""
        groups: dict[int, tuple[_Draft | None, list[Recompile]]] = {}
        for item in items:
            parent = self.under(self.folding.of_recompile(item))
            groups.setdefault(id(parent), (parent, []))[1].append(item)
        for parent, same in groups.values():
            for one in series(same):
                self._add_series(one, parent)

    def _add_series(self, one: Repeats, parent: _Draft | None) -> None:
        before = 0 if one.first.layer in self.matched else None
        change = Difference("recompile", one.first.layer, where=one.first.where, reason=one.reason)
        self.add(replace(change, before=before, after=len(one.items)), one.items, parent)
        draft = self.drafts[-1]
        for same in one.followers:
            first = same[0]
            change = Difference("recompile", first.layer, where=first.where, reason=first.reason)
            self.add(replace(change, before=before, after=len(same)), same, draft)


def _add_breaks(sides: _Sides) -> None:
    for item in sides.new_breaks:
        change = Difference(
            "break", item.layer, where=item.where, reason=item.reason, id=item.id, after=item.count
        )
        head = sides.folding.of_break(item)
        sides.add(replace(change, before=sides.nothing), (item,), sides.under(head))
        sides.of_break[id(item)] = sides.drafts[-1]


def _add_graphs(sides: _Sides) -> None:
    """Graphs that exist for a reason of their own and are new, each place once.

    Most of dynamo are told by breaks, recompiles and entries. Where the baseline does not know
    the causes of a layer that grew, all of its graphs are told.
    """
    grown = sides.grown("graph")
    for layer in sides.after.layers:
        graphs = [graph for graph in sides.after.graph_list if graph.layer == layer]
        matched = sides.matched.get(layer)
        if matched is not None:
            new = set(map(id, matched.added))
            above = DESCRIPTIONS[layer].above in grown
            for same in _alike(item for item in matched.added if _is_told(item, sides, above)):
                known = sum(_likeness(item) == _likeness(same[0]) for item in graphs)
                before = known - sum(
                    id(item) in new and _likeness(item) == _likeness(same[0]) for item in graphs
                )
                _add_graph(sides, same, before)
        elif layer in grown:
            for same in _alike(filter(_has_own_reason, graphs)):
                _add_graph(sides, same, None)


def _add_graph(sides: _Sides, same: Sequence[Graph], before: int | None) -> None:
    parent = sides.under(sides.folding.of_graph(same[0]))
    sides.add(_of_graphs(same, before), same, parent)


def _of_graphs(same: Sequence[Graph], before: int | None, *, unsure: bool = False) -> Difference:
    first = same[0]
    return Difference(
        "graph",
        first.layer,
        cause=first.cause,
        where=first.where,
        reason=first.reason,
        before=before,
        after=(before or 0) + len(same),
        unsure=unsure,
    )


def _cause(graph: Graph) -> GraphCause:
    return DESCRIPTIONS[graph.layer].cause(graph.cause)


def _has_own_reason(graph: Graph) -> bool:
    """Whether a graph has a reason of its own, and no break or recompile that tells it."""
    return not (_cause(graph).is_plain or _cause(graph).explained_by)


def _is_told(graph: Graph, sides: _Sides, above: bool) -> bool:
    """Whether nothing else that is told makes this new graph; ``above``: more came from there."""
    cause = _cause(graph)
    if cause.is_plain:  # an entry is told by its function
        return DESCRIPTIONS[graph.layer].above is not None and not above
    if cause.explained_by == "break":
        return not (sides.new_breaks or sides.new_eager)
    return not cause.explained_by


def _likeness(graph: Graph) -> tuple[str, ...]:
    """What graphs have in common that are told as one."""
    return (graph.layer, graph.cause, graph.reason, *graph.where.key)


def _alike(graphs: Iterable[Graph]) -> list[list[Graph]]:
    found: dict[tuple[str, ...], list[Graph]] = {}
    for graph in graphs:
        found.setdefault(_likeness(graph), []).append(graph)
    return list(found.values())


def _add_entries(sides: _Sides) -> None:
    """The functions that are compiled and were not, with a sign, and how often.

    Which of them are new may not be known. They are told then where
    nothing else tells why there are more. Where none is allowed all of them are new.
    """
    for layer in DESCRIPTIONS.values():
        if layer.above is not None:  # of a layer below, the one above tells
            continue
        matched = sides.matched.get(layer.name)
        if matched is not None and not matched.unsure:
            new = [graph for graph in matched.added if _cause(graph).is_plain]
            for same in _by_place(new):
                parent = sides.under(sides.folding.through(same[0].where))
                sides.add(_of_graphs(same, 0), same, parent)
        elif not sides.new_breaks:
            forbidden = _is_forbidden(layer.name, sides.totals)
            for same in _all_compiled(layer.name, sides, forbidden):
                before = None if matched is None else 0
                sides.add(_of_graphs(same, before, unsure=not forbidden), same)


def _is_forbidden(layer: str, totals: Iterable[Difference]) -> bool:
    """Whether the layer may have no graph at all."""
    return any(
        (one.layer, one.kind, one.before) == (layer, "graph", 0) and one.growth > 0
        for one in totals
    )


def _all_compiled(layer: str, sides: _Sides, forbidden: bool) -> Iterator[list[Graph]]:
    """All functions that were compiled, where more are than recompiles explain."""
    growth = {"graph": 0, "recompile": 0}
    for one in sides.totals:
        if one.layer == layer and one.kind in growth:
            growth[one.kind] = max(one.growth, growth[one.kind])
    if growth["graph"] > growth["recompile"]:
        graphs = (graph for graph in sides.after.graph_list if graph.layer == layer)
        compiled = [graph for graph in graphs if _cause(graph).is_plain]
        if len(compiled) > 1 or forbidden:
            yield from _by_place(compiled)


def _by_place(graphs: Iterable[Graph]) -> list[list[Graph]]:
    found: dict[object, list[Graph]] = {}
    for graph in graphs:
        found.setdefault((graph.where.key, graph.process), []).append(graph)
    return list(found.values())


def _add_recompiles(sides: _Sides) -> None:
    """The recompiles of the layers that grew, without those that the baseline knows."""
    grown = sides.grown()
    new = {(layer, graph.name) for layer, one in sides.matched.items() for graph in one.added}
    known = {(graph.layer, graph.name) for graph in sides.after.graph_list} - new
    sides.add_recompiles(
        item
        for item in sides.after.recompile_list
        if (
            (item.layer, item.graph) not in known
            if item.layer in sides.matched
            else item.layer in grown
        )
    )


def _add_eager(sides: _Sides) -> None:
    sides.add_eager(sides.new_eager, sides.nothing)


def _add_gone_places(sides: _Sides) -> None:
    if sides.before is None:
        return
    places: Sequence[BaselinePlace]
    items: Sequence[Break | Eager]
    for kind, places, items in (
        ("break", sides.before.values.breaks, sides.after.breaks),
        ("eager", sides.before.values.eager, sides.after.eager),
    ):
        seen = set(map(_key, items))
        for known in places:
            if known.layer in sides.judged and known.key not in seen:
                sides.add(
                    Difference(
                        kind,
                        known.layer,
                        where=_frame(known.where, known.code),
                        reason=known.reason or "",
                        id=known.id,
                        before=known.count,
                    )
                )


def _add_gone_graphs(sides: _Sides) -> None:
    """The causes of graphs that are there no longer, under the place that is gone with them."""
    places = [
        draft
        for draft in sides.drafts
        if draft.change.kind in ("break", "eager") and not draft.change.total
    ]
    for layer, matched in sides.matched.items():
        for item, left in matched.gone:
            cause = DESCRIPTIONS[layer].cause(item.cause)
            follows = cause.explained_by or cause.falls_with == "sources"
            # What is gone comes last, and is likelier to have taken a graph with it.
            parent = places[-1] if follows and places else None
            where = _frame(item.where, item.code)
            change = Difference("graph", layer, cause=item.cause, where=where, before=item.count)
            sides.add(replace(change, after=left), parent=parent)


def _add_reworded(sides: _Sides) -> None:
    """Breaks of which the same compiler gives another reason than was recorded."""
    if sides.before is None:
        return
    recorded = {item.key: item for item in sides.before.values.breaks}
    for item in sides.after.breaks:
        known = recorded.get(_key(item))
        now = made_by(item.layer, sides.versions)
        if known is None or not same_minor(now, made_by(item.layer, sides.before.breaks_with)):
            continue
        if item.layer in sides.judged and _is_reworded(known, item):
            change = Difference(
                "break", item.layer, where=item.where, reason=item.reason, id=item.id
            )
            was = known.id or known.reason or ""
            sides.add(replace(change, was=was, before=known.count, after=item.count), (item,))


def _is_reworded(known: BaselinePlace, item: Break) -> bool:
    # An entry written by hand may leave reason and id out: nothing to compare then.
    return (known.id is not None and known.id != item.id) or (
        known.reason is not None and known.reason != item.reason
    )


def _add_functions(sides: _Sides) -> None:
    """The functions that hold fewer operations, those that hold none first.

    Where all graphs of a layer are gone, or the same compiler captured less of the same packages;
    and where nobody asked for captured operations.
    """
    less = [one for one in sides.totals if one.kind in ("graph", "ops") and one.growth < 0]
    fell = any(one.kind == "ops" or not one.after for one in less)
    if sides.before is None or (sides.ops and not fell):
        return
    measured = sides.after.functions
    known = sides.before.values.functions.items()
    fewer = [(name, was) for name, was in known if measured.get(name, 0) < was]
    for name, was in sorted(fewer, key=lambda item: (measured.get(item[0], 0) > 0, -item[1])):
        change = Difference("function", PLACES_LAYER, where=_frame(name), before=was)
        sides.add(replace(change, after=measured.get(name, 0)))


def _add_explained(sides: _Sides) -> None:
    """The new graphs that exist for something else that is told, each with that."""
    told = {id(item) for draft in sides.drafts for item in draft.items}
    groups = [
        same
        for matched in sides.matched.values()
        for same in _alike(graph for graph in matched.added if id(graph) not in told)
    ]
    if not groups:
        return
    made_for = Attribution(sides.after, sides.after.layers)
    known: dict[object, _Draft] = {}
    for draft in sides.drafts:
        for item in draft.items:
            known.setdefault(key_of(item), draft)
    for same in groups:
        first = same[0]
        parent = known.get(made_for.names[first.layer, first.name])
        above = DESCRIPTIONS[first.layer].above
        parent = parent or sides.total(first.layer, "graph", "recompile")
        parent = parent or sides.total(above, "graph") or next(iter(sides.drafts), None)
        if parent is not None:
            sides.add(_of_graphs(same, 0), same, parent)


_DIFFERENCES: Final[Sequence[Callable[[_Sides], None]]] = (
    _add_breaks,
    _add_graphs,
    _add_entries,
    _add_recompiles,
    _add_eager,
    _add_gone_places,
    _add_gone_graphs,
    _add_reworded,
    _add_functions,
    _add_explained,
)
"""What looks for changes, in the order in which they are told."""


def _numbered(drafts: Sequence[_Draft], record: Record) -> tuple[Difference, ...]:
    """The changes with their numbers: each after the one that it happened with."""
    below: dict[int, list[_Draft]] = {}
    for draft in drafts:
        below.setdefault(id(draft.parent), []).append(draft)
    ordered = below.get(id(None), [])
    for draft in ordered:  # which grows
        ordered += below.get(id(draft), ())
    numbers = {id(draft): number for number, draft in enumerate(ordered)}
    items = {id(item): n for name in LISTS.values() for n, item in enumerate(getattr(record, name))}
    return tuple(
        replace(
            draft.change,
            parent=None if draft.parent is None else numbers[id(draft.parent)],
            items=tuple(items[id(item)] for item in draft.items),
        )
        for draft in ordered
    )


def _key(item: Break | Eager) -> tuple[str, str, str]:
    """The identity of what broke, as ``BaselinePlace.key`` has it."""
    return (item.layer, *place_of(item.where))


def _frame(name: str, code: str = "") -> Frame:
    """The place that a baseline calls ``file::qualified.name``."""
    file, _, function = name.partition("::")
    return Frame(file, function, 0, code)
