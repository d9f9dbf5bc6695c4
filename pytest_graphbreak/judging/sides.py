"""Both sides of a comparison, the changes found between them, and the cause of each.

What was seen is known if the baseline has its match:

- a break or an eager place: a place of the same layer, function and source line, on a layer that
  has several reasons at one line also of the same reason (``key``);
- a graph: a cause that it claims (``causes.match``);
- a recompile: the cause that the graph it made claims. It has no match of its own;
- a line that ran graphs or read values: the same line, with its count (``difference``).

What has no match is new, what claims nothing is gone. A new thing may follow from another change;
it is then reported below that (``Folding`` says which break, ``Draft.parent`` holds it).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from pytest_graphbreak.baseline.model import Expected
from pytest_graphbreak.judging import guards
from pytest_graphbreak.judging.causes import MatchedGraphs, match, place_of
from pytest_graphbreak.judging.guards import Repeats, repeats
from pytest_graphbreak.judging.totals import forbidden_eager
from pytest_graphbreak.layers.dynamo.messages import LIMIT
from pytest_graphbreak.model.budget import Cap, writable
from pytest_graphbreak.model.differences import LISTS, Difference, Item
from pytest_graphbreak.model.layer import Versions
from pytest_graphbreak.model.layers import DESCRIPTIONS, reason_key
from pytest_graphbreak.model.record import Break, Eager, Frame, Graph, Recompile, Record


class Draft(Struct, eq=False):
    """A change whose index, and whose parent's index, are not known yet."""

    change: Difference
    items: Sequence[Item] = ()
    parent: Draft | None = None


class Sides(Struct, eq=False, dict=True):
    """Both sides, and the changes that were found so far.

    ``judged`` are the layers that the baseline judges. ``of_recompiled`` has the changes of
    recompiles by the names of the graphs that they made.
    """

    before: Expected | None
    after: Record
    cap: Cap | None
    versions: Versions
    judged: Sequence[str]
    totals: list[Difference]
    drafts: list[Draft] = []
    of_break: dict[int, Draft] = {}
    of_recompiled: dict[str, Draft] = {}

    def __post_init__(self) -> None:
        self.drafts += [Draft(total) for total in self.totals]

    @cached_property
    def matched_graphs(self) -> Mapping[str, MatchedGraphs]:
        """The layers of which both sides know the causes of graphs."""
        if self.before is None:
            return {}
        matches = (
            (layer, match(self.after, self.before, layer, self.versions)) for layer in self.judged
        )
        return {layer: graphs for layer, graphs in matches if graphs is not None}

    @cached_property
    def new_breaks(self) -> tuple[Break, ...]:
        if self.before is None:
            all_count = self.cap is None or self.grown("break")
            breaks = self.after.breaks
            return breaks if all_count else tuple(filter(_makes_graphs, breaks))
        recorded = {graph_break.key for graph_break in self.before.values.breaks}
        return tuple(
            graph_break
            for graph_break in self.after.breaks
            if graph_break.layer in self.judged and key(graph_break) not in recorded
        )

    @cached_property
    def new_eager(self) -> tuple[Eager, ...]:
        if self.before is None:
            return () if self.cap is None else forbidden_eager(self.cap, self.after)
        recorded = {eager.key for eager in self.before.values.eager}
        return tuple(
            eager
            for eager in self.after.eager
            if eager.layer in self.judged and key(eager) not in recorded
        )

    @cached_property
    def recompiled_graphs(self) -> AbstractSet[tuple[str, str]]:
        """The graphs that their recompile reports."""
        return {(recompile.layer, recompile.graph) for recompile in self.after.recompile_list}

    @cached_property
    def folding(self) -> Folding:
        return Folding(self.after, self.new_breaks)

    @property
    def count_before_new(self) -> int | None:
        """The earlier number of a new item: 0, or None if that is not known."""
        return None if self.before is None else 0

    def grown(self, kind: str | None = None) -> AbstractSet[str | None]:
        """Return the layers of which a total grew or exceeds the cap, of one kind or of any."""
        kinds = ("graph", "recompile", "break") if kind is None else (kind,)
        return {total.layer for total in self.totals if total.kind in kinds and total.growth > 0}

    def total(self, layer: str | None, *kinds: str) -> Draft | None:
        """Return the total of a layer, for the first of these kinds that has one."""
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
        self, change: Difference, items: Sequence[Item] = (), parent: Draft | None = None
    ) -> None:
        self.drafts.append(Draft(change, items, parent))

    def draft_of(self, graph_break: Break | None) -> Draft | None:
        return None if graph_break is None else self.of_break[id(graph_break)]

    def add_eager(self, items: Iterable[Eager], before: int | None) -> None:
        for eager in items:
            change = Difference("eager", eager.layer, where=eager.where, reason=eager.reason)
            change = replace(change, before=before, after=eager.count)
            self.add(change, (eager,), self.draft_of(self.folding.parent_of_eager(eager)))

    def add_recompiles(self, items: Iterable[Recompile]) -> None:
        """Add each series, with the functions that were recompiled because it calls them."""
        groups: dict[int, tuple[Draft | None, list[Recompile]]] = {}
        for recompile in items:
            parent = self.draft_of(self.folding.parent_of_recompile(recompile))
            groups.setdefault(id(parent), (parent, []))[1].append(recompile)
        for parent, recompiles in groups.values():
            for group in repeats(recompiles):
                self._add_repeats(group, parent)

    def _add_repeats(self, group: Repeats, parent: Draft | None) -> None:
        first, reason = group.items[0], guards.reason(recompile.reason for recompile in group.items)
        before = 0 if first.layer in self.matched_graphs else None
        change = Difference("recompile", first.layer, where=first.where, reason=reason)
        self.add(replace(change, before=before, after=len(group.items)), group.items, parent)
        draft = self.drafts[-1]
        self.of_recompiled |= dict.fromkeys((recompile.graph for recompile in group.items), draft)
        for recompiles in group.followers:
            first = recompiles[0]
            change = Difference("recompile", first.layer, where=first.where, reason=first.reason)
            self.add(replace(change, before=before, after=len(recompiles)), recompiles, draft)


def number_drafts(drafts: Sequence[Draft], record: Record) -> tuple[Difference, ...]:
    """Return the changes with their indices, each after its parent."""
    below: dict[int, list[Draft]] = {}
    for draft in drafts:
        below.setdefault(id(draft.parent), []).append(draft)
    ordered = below.get(id(None), [])
    for draft in ordered:  # the list grows meanwhile
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


def key(place: Break | Eager) -> tuple[str, ...]:
    """Return the identity of a break or eager place, as ``BaselinePlace.key`` has it."""
    reason = reason_key(place.layer, writable(place.reason))
    return (place.layer, *place_of(place.where), *reason)


def frame_of(name: str, code: str = "") -> Frame:
    """Return the place of ``file::qualified.name`` in a baseline."""
    file, _, function = name.partition("::")
    return Frame(file, function, 0, code)


class Folding:
    """The breaks of a record by the functions they run through, to report one cause once.

    If a frame breaks, the frames around it are skipped, compiled separately, recompiled, or break
    as well although they were traced before; on a device, the values between them become graphs.
    All of this disappears with the break, and needs no advice of its own.

    ``breaks`` are in the order in which they happened; ``record`` has the graphs of Dynamo. Each
    method returns the break that something is a consequence of, or None.
    """

    def __init__(self, record: Record, breaks: Sequence[Break]) -> None:
        self._leading: list[Break] = []
        self._stacks: list[set[tuple[str, ...]]] = []
        self._followers: dict[int, Break] = {}
        for graph_break in breaks:
            leading = (earlier for earlier in self._leading if _follows(graph_break, earlier))
            head = next(leading, None)
            if head is None:
                self._leading.append(graph_break)
                self._stacks.append(_functions(graph_break))
            else:
                self._followers[id(graph_break)] = head
                self._stacks[self._leading.index(head)] |= _functions(graph_break)
        self._causes = {
            graph.name: graph.cause for graph in record.graph_list if graph.layer == "dynamo"
        }
        entries = (name for name, cause in self._causes.items() if cause == "entry")
        self._entries = {_frame(name) for name in entries}

    def parent_of_break(self, graph_break: Break) -> Break | None:
        """Return the earlier break without which this code would be traced as before."""
        return self._followers.get(id(graph_break))

    def parent_of_eager(self, eager: Eager) -> Break | None:
        """Return the break that runs through the skipped frame, or through its caller."""
        if LIMIT.search(eager.reason):
            return None
        called = self.break_through(eager.caller) if eager.caller.file else None
        return self.break_through(eager.where) or called

    def parent_of_recompile(self, recompile: Recompile) -> Break | None:
        """Return the break that runs through the function; entries have a reason of their own."""
        is_independent = recompile.layer != "dynamo" or _frame(recompile.graph) in self._entries
        return None if is_independent else self.break_through(recompile.where)

    def parent_of_graph(self, graph: Graph) -> Break | None:
        """Return the break, by the rule of the graph's cause (``GraphCause.falls_with``)."""
        rule = DESCRIPTIONS[graph.layer].cause(graph.cause).falls_with
        if rule == "call":
            # The function itself, whose sync computes what eager code left pending.
            here = graph.where.key[:2]
            breaks = (leading for leading in self._leading if leading.stack)
            return next((leading for leading in breaks if leading.stack[0].key[:2] == here), None)
        if rule == "sources":
            # Since the break, the function that was waited for is a separate graph.
            is_entry = any(
                name not in self._causes or _frame(name) in self._entries for name in graph.sources
            )
            return None if is_entry or not graph.sources else self.break_through(graph.where)
        return None

    def break_through(self, where: Frame) -> Break | None:
        """Return the first break that runs through the function of a place."""
        pairs = zip(self._stacks, self._leading, strict=True)
        return next((head for stack, head in pairs if where.key[:2] in stack), None)


def _makes_graphs(graph_break: Break) -> bool:
    """Return whether breaks make graphs on a layer; a callback in a program of JAX does not."""
    return any(cause.explained_by == "break" for cause in DESCRIPTIONS[graph_break.layer].causes)


def _functions(graph_break: Break) -> set[tuple[str, ...]]:
    return {frame.key[:2] for frame in (*graph_break.stack, graph_break.where)}


def _follows(graph_break: Break, earlier: Break) -> bool:
    """Return whether two breaks are of one disabled function, or one caused the other."""
    same = bool(graph_break.disabled.file) and graph_break.disabled.key == earlier.disabled.key
    return same or _traced_before(graph_break, earlier)


def _traced_before(graph_break: Break, earlier: Break) -> bool:
    """Return whether a break is in code that was traced without it until ``earlier`` appeared.

    This is so if a caller of the earlier break breaks on a line above the call: had it been able to
    break there by itself, it would have come first.
    """
    return any(
        frame.key[:2] == graph_break.where.key[:2] and 0 < graph_break.where.line < frame.line
        for frame in earlier.stack[:-1]
    )


def _frame(graph: str) -> str:
    """Return Dynamo's number of a frame: ``2`` of ``2/1``, with a round of the test (``#2``)."""
    number, _, compilation = graph.partition("/")
    return f"{number}#{compilation.partition('#')[2]}"
