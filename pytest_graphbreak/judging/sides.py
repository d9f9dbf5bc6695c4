"""Both sides of a comparison, the changes found between them, and the cause of each.

``difference`` makes one ``Sides`` for a comparison, and its functions add what they find, each as a
``Draft``: a change before it has a number. ``Expected`` is what a baseline knows of the test,
``Cap`` a limit in code; of the two one may be missing.

What was seen is known if the baseline has its match:

- a break or an eager place: a place of the same layer, function and source line, on a layer that
  has several reasons at one line also of the same reason (``baseline_key``);
- a graph: a cause that it claims (``matching``);
- a recompile: the cause that the graph it made claims. It has no match of its own;
- a line that ran graphs or read values: the same line, with its count (``difference``).

What has no match is new, what claims nothing is gone. A new thing may follow from another change;
it is then reported below that (``Folding`` says which break, ``Draft.parent`` holds it).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from pytest_graphbreak.baseline.model import Expected
from pytest_graphbreak.judging.folding import Folding
from pytest_graphbreak.judging.matching import MatchedGraphs, match
from pytest_graphbreak.judging.measured import place_of
from pytest_graphbreak.judging.totals import forbidden_eager
from pytest_graphbreak.model.budget import Cap, writable
from pytest_graphbreak.model.differences import LISTS, Difference
from pytest_graphbreak.model.items import Break, Eager, Frame, Item
from pytest_graphbreak.model.layers import DESCRIPTIONS, reason_key
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.versions import Versions


class Draft(Struct, eq=False):
    """A change whose index, and whose parent's index, are not known yet (``number_drafts``).

    A draft is only equal to itself (``eq=False``), since drafts are keys.
    """

    change: Difference
    items: Sequence[Item] = ()
    parent: Draft | None = None


class Sides(Struct, dict=True):  # the dict is where cached properties are kept
    """Both sides, and the changes that were found so far.

    ``versions`` are those of the compilers that made ``after``.
    """

    before: Expected | None
    after: Record
    cap: Cap | None
    versions: Versions
    judged: Sequence[str]
    """The layers that the baseline judges; none without a baseline."""
    totals: Sequence[Difference]
    """The numbers that differ between both sides, or that exceed the cap."""
    drafts: list[Draft] = []
    """The changes so far: the totals first, then what the functions of ``difference`` found."""
    of_item: dict[int, Draft] = {}
    """The first change about each item of the record, by the ``id`` of the item."""

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
        """The breaks that have no match; without a baseline, those that a cap may be about."""
        if self.before is None:
            # A break that makes no graph exceeds no limit but one of breaks.
            all_count = self.cap is None or self.grown("break")
            breaks = self.after.breaks
            return breaks if all_count else tuple(filter(_makes_graphs, breaks))
        recorded = {place.key for place in self.before.values.breaks}
        return tuple(
            place
            for place in self.after.breaks
            if place.layer in self.judged and baseline_key(place) not in recorded
        )

    @cached_property
    def new_eager(self) -> tuple[Eager, ...]:
        """The eager places without a match; without a baseline, those that a cap forbids."""
        if self.before is None:
            return () if self.cap is None else forbidden_eager(self.cap, self.after)
        recorded = {place.key for place in self.before.values.eager}
        return tuple(
            place
            for place in self.after.eager
            if place.layer in self.judged and baseline_key(place) not in recorded
        )

    @cached_property
    def recompiled_graphs(self) -> AbstractSet[tuple[str, str]]:
        """The graphs that their recompile reports."""
        return self.after.recompile_of.keys()

    @cached_property
    def folding(self) -> Folding:
        return Folding(self.after, self.new_breaks)

    @property
    def count_before_new(self) -> int | None:
        """The earlier number of a new item: 0, or None if that is not known."""
        return None if self.before is None else 0

    def grown(self, *kinds: str) -> AbstractSet[str | None]:
        """Return the layers of which a total of one of these kinds grew or exceeds the cap."""
        return {total.layer for total in self.totals if total.kind in kinds and total.growth > 0}

    def add(
        self,
        kind: str,
        items: Sequence[Item],
        before: int | None,
        after: int,
        parent: Draft | None = None,
        **facts: Any,
    ) -> Draft:
        """Add a change at the place of the first item; ``facts`` are further fields of it."""
        first = items[0]
        change = Difference(
            kind, first.layer, where=first.where, before=before, after=after, **facts
        )
        draft = Draft(change, items, parent)
        self.drafts.append(draft)
        for item in items:
            self.of_item.setdefault(id(item), draft)
        return draft

    def draft_of(self, item: Item | None) -> Draft | None:
        """Return the first change so far that is about an item; None for no item, too."""
        return self.of_item.get(id(item))


def number_drafts(drafts: Sequence[Draft], record: Record) -> tuple[Difference, ...]:
    """Return the changes with their indices, each after its parent."""
    below: dict[int, list[Draft]] = {}
    for draft in drafts:
        below.setdefault(id(draft.parent), []).append(draft)
    ordered = below.get(id(None), [])  # those without a parent
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


def baseline_key(place: Break | Eager) -> tuple[str, ...]:
    """Return the identity of a break or eager place, as ``BaselinePlace.key`` has it."""
    reason = reason_key(place.layer, writable(place.reason))
    return (place.layer, *place_of(place.where), *reason)


def frame_of(name: str, code: str) -> Frame:
    """Return the place of ``file::qualified.name`` in a baseline, which knows no line number."""
    file, _, function = name.partition("::")
    return Frame(file, function, line=0, code=code)


def _makes_graphs(graph_break: Break) -> bool:
    """Return whether breaks make graphs on a layer; a callback in a program of JAX does not."""
    return any(cause.explained_by == "break" for cause in DESCRIPTIONS[graph_break.layer].causes)
