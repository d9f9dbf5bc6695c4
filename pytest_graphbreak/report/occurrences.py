"""The changes that are reported on their own, each with what happened and what it caused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_graphbreak.judging.verdict import Verdict
from pytest_graphbreak.model.differences import LISTS, Difference, Item
from pytest_graphbreak.model.layers import DESCRIPTIONS
from pytest_graphbreak.model.record import Break, Frame, Graph, Recompile, Record


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One change at a place; ``items`` are what happened there, ``below`` what happened with it.

    What is gone has no items.
    """

    change: Difference
    items: tuple[Item, ...] = ()
    below: tuple[Occurrence, ...] = ()

    @property
    def first(self) -> Item:
        return self.items[0]

    @property
    def where(self) -> Frame:
        return self.change.where

    @property
    def stack(self) -> tuple[Frame, ...]:
        """The calls that lead to the place, from the outermost to the place."""
        match self.items:
            case (Break() | Graph() as item, *_):
                return (*item.stack[:-1], item.where)
            case (Recompile() as item, *_):
                return (*item.stack, item.where)
        return (self.where,)

    @property
    def is_entry(self) -> bool:
        """Whether it is a function that was compiled as it was called."""
        change = self.change
        layer = DESCRIPTIONS[change.layer] if change.layer and change.kind == "graph" else None
        return layer is not None and layer.above is None and layer.cause(change.cause).is_plain

    def with_it(self, kind: str) -> list[Occurrence]:
        return [one for one in self.below if one.change.kind == kind and one.items]


def occurrences(
    changes: Sequence[Difference],
    record: Record,
    wanted: Callable[[Difference], bool] | None = None,
) -> list[Occurrence]:
    """The places that are reported on their own, in the order of the report."""
    below: dict[int, list[Occurrence]] = {}
    found = []
    # What happened with another one comes after it.
    for number, change in reversed([*enumerate(changes)]):
        if change.total or change.kind not in LISTS or (wanted and not wanted(change)):
            continue
        one = Occurrence(change, change.found(record), tuple(reversed(below.get(number, []))))
        if change.parent is None:
            found.append(one)
        else:
            below.setdefault(change.parent, []).append(one)
    return found[::-1]


def reported(verdict: Verdict, record: Record) -> list[Occurrence]:
    """What a failure reports: the layers with a number that is worse; without any, all layers."""
    layers = _layers(verdict)

    def wanted(change: Difference) -> bool:
        return change.kind in ("break", "eager") or not layers or change.layer in layers

    return occurrences(verdict.changes, record, wanted)


def _layers(verdict: Verdict) -> set[str]:
    return {one.layer for one in verdict.worse if one.layer}
