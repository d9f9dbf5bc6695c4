"""What is gone at one place and new at another, and may be one and the same.

A report names a place and knows nothing of what its file was called before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, get_args

from pytest_graphbreak.model.layers import EXPECTED
from pytest_graphbreak.runs.comparison import Alike, CauseChange, PossibleMove

_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?")


def without_numbers(reason: str) -> str:
    """A reason without its numbers: those are of the inputs."""
    return _NUMBER.sub("#", reason)


def paired(changes: Iterable[CauseChange]) -> tuple[list[PossibleMove], list[CauseChange]]:
    """Those that are gone and those that are new where they may be the same, and all others."""
    ordered = sorted(changes, key=lambda one: (-abs(one.growth), -len(one.effects), one.where.key))
    found: list[PossibleMove] = []
    taken: set[int] = set()
    for why in get_args(Alike):
        news: dict[tuple[object, ...], list[CauseChange]] = {}
        for one in reversed(ordered):
            if one.how == "new" and id(one) not in taken:
                for key in _alike(one, why):
                    news.setdefault(key, []).append(one)
        for one in ordered:
            if one.how == "gone" and id(one) not in taken:
                other = _first(news, _alike(one, why), taken)
                if other is not None:
                    found.append(PossibleMove(one, other, why))
                    taken |= {id(one), id(other)}
    return found, [change for change in ordered if id(change) not in taken]


def _first(
    news: Mapping[tuple[object, ...], list[CauseChange]],
    keys: Iterable[tuple[object, ...]],
    taken: set[int],
) -> CauseChange | None:
    """The first change with one of these keys that is not taken."""
    for key in keys:
        rest = news.get(key, [])
        while rest and id(rest[-1]) in taken:
            rest.pop()
        if rest:
            return rest[-1]
    return None


def _alike(one: CauseChange, why: Alike) -> Iterator[tuple[object, ...]]:
    """What two changes share that differ in ``why``: a part of their place, in the same test."""
    if one.kind in EXPECTED or not one.where.file:
        return
    file, function, code = one.where.key
    reason = one.id or without_numbers(one.reason)
    same: dict[Alike, tuple[str, ...]] = {
        "file": (function, code),
        "function": (file, code),
        "place": (code, reason),
        "line": (file, function, reason),
    }
    if code or why == "line":
        for effect in one.effects:
            yield (one.kind, one.layer, *same[why], effect.nodeid, effect.profile)
