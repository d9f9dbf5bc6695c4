"""Changes of the functions that held operations when a baseline was recorded.

A baseline has the functions with the most operations, each including those of the functions that it
calls. Data in, data out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from pytest_graphbreak.judging.measured import MOST_FUNCTIONS
from pytest_graphbreak.judging.sides import frame_of
from pytest_graphbreak.model.budget import PLACES_LAYER
from pytest_graphbreak.model.differences import Difference


def moved(before: Mapping[str, int], after: Mapping[str, int], fall: int) -> Iterator[Difference]:
    """Yield the functions that hold fewer operations or have another name, empty ones first.

    ``fall`` is by how many the captured operations of the layer fell, negative if there are more.
    """
    names = _renamed(before, after, fall)
    left = {name: after.get(names.get(name, name), 0) for name in before}
    for name in sorted(before, key=lambda name: (left[name] > 0, -before[name])):
        # If nothing is lost, the operations that one function lacks are in another one.
        if not left[name] or name in names or (fall > 0 and left[name] < before[name]):
            yield Difference(
                "function",
                PLACES_LAYER,
                where=frame_of(names.get(name, name)),
                was=name if name in names else "",
                before=before[name],
                after=left[name],
            )


def _renamed(before: Mapping[str, int], after: Mapping[str, int], fall: int) -> dict[str, str]:
    """Return the functions with a new name, by their names before.

    A new function holds what the removed one held, except for the operations that the whole layer
    lost. If the baseline has no room for all functions, a small one may not be new.
    """
    full = len(before) >= MOST_FUNCTIONS
    new = {
        name: count
        for name, count in after.items()
        if name not in before and (not full or count >= min(before.values()))
    }
    found: dict[str, str] = {}
    for name, was in before.items():
        if name in after:
            continue
        # Code that became eager leaves a function with nothing, and not with most of what it had.
        fits = [
            one
            for one, now in new.items()
            if max(was - fall, was / 2) <= now <= max(was, was - fall)
        ]
        if fits:
            found[name] = min(fits, key=lambda one: (abs(new[one] - was), one))
            del new[found[name]]
    return found


def called_less(functions: Sequence[Difference]) -> bool:
    """Return whether a function seems to be called less: what it calls fell in proportion.

    The missing calls may now be made without the compiler. A deleted line removes the same number
    of operations from all functions around it.
    """
    fell = [(one.before or 0, one.after) for one in functions if one.growth < 0]
    return any(
        was != other and now * other == left * was
        for (was, now), (other, left) in combinations(fell, 2)
    )
