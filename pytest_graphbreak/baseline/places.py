"""Lists of places and of causes, compared and updated item by item. Data in, data out.

An item has a layer, a count, and a key that says which one it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar

from msgspec import structs

from pytest_graphbreak.model.budget import BaselinePlace, Cause
from pytest_graphbreak.model.layer import Versions, same_minor
from pytest_graphbreak.model.layers import made_by

Item = TypeVar("Item", bound=Cause | BaselinePlace)


def select_layers(items: Iterable[Item], layers: Collection[str]) -> list[Item]:
    """Return the items of these layers."""
    return [item for item in items if item.layer in layers]


def replace_items(
    old: Iterable[Item], after: Mapping[Any, Item], layers: Collection[str]
) -> tuple[Item, ...]:
    """Return the old items in their order, as they are ``after``, then the new ones.

    An old item of one of the ``layers`` is dropped if it is not there after.
    """
    new = dict(after)
    items: list[Item] = []
    for item in old:
        if item.key in new:
            items.append(new.pop(item.key))
        elif item.layer not in layers:
            items.append(item)
    return (*items, *new.values())


def have_same_causes(before: Iterable[Cause], after: Iterable[Cause]) -> bool:
    """Return whether the graphs of a layer have the same causes.

    A different calling line of a recompile is no difference by itself.
    """

    def count_causes(causes: Iterable[Cause]) -> Counter[tuple[str, ...]]:
        counts: Counter[tuple[str, ...]] = Counter()
        for cause in causes:
            counts[cause.key[:-1]] += cause.count
        return counts

    return count_causes(before) == count_causes(after)


def have_same_places(
    before: Iterable[BaselinePlace],
    after: Iterable[BaselinePlace],
    was_with: Versions,
    now_with: Versions,
) -> bool:
    """Return whether two lists name the same places, equally often, and for the same reasons."""
    old, new = distinct_places(before), distinct_places(after)
    if old.keys() != new.keys():
        return False
    return all(
        _is_same_place(
            place, new[key], same_minor(made_by(key[0], was_with), made_by(key[0], now_with))
        )
        for key, place in old.items()
    )


def distinct_places(places: Iterable[BaselinePlace]) -> dict[tuple[str, ...], BaselinePlace]:
    """Return each place once, as it is written, in order of appearance.

    The counts of equal places are added up, and the reason is that of the first.
    """
    distinct: dict[tuple[str, ...], BaselinePlace] = {}
    for place in places:
        before = distinct.get(place.key)
        count = place.count if before is None else before.count + place.count
        distinct[place.key] = structs.replace(before or place, count=count).as_written()
    return distinct


def merge_places(before: BaselinePlace, after: BaselinePlace, versions: Versions) -> BaselinePlace:
    """Return a place as it was, with the new count, and with the reason of a known compiler."""
    with_reasons = made_by(after.layer, versions) is not None
    if _is_same_place(before, after, with_reasons):
        return before
    reasoned = after if with_reasons else before
    return structs.replace(reasoned, count=after.count).as_written()


def _is_same_place(before: BaselinePlace, after: BaselinePlace, with_reasons: bool) -> bool:
    """Return whether a place is as before; a key that an edited entry left out is not compared."""
    if before.count != after.count:
        return False
    return not with_reasons or (
        before.reason in (None, after.reason) and before.id in (None, after.id)
    )
