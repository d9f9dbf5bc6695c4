"""Groups what was compiled again: by place and guard, with what it compiles again in turn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pytest_graphbreak.judging.guards import LEFT, TENSOR, kind
from pytest_graphbreak.model.record import Recompile

MOST_NAMES: Final = 2
"""The number of graphs that are named one by one; of more, the first and the last."""


@dataclass(frozen=True, slots=True)
class Repeats:
    """Recompiles of one function that fail one guard, with whatever values.

    ``followers`` are the recompiles of functions that it calls and that were therefore recompiled
    with it, grouped by function.
    """

    items: tuple[Recompile, ...]
    followers: tuple[tuple[Recompile, ...], ...] = ()


def repeats(recompiles: Iterable[Recompile]) -> list[Repeats]:
    """Return the recompiles by function and guard, in order of first appearance.

    A function that is recompiled inside a call of a recompiled one is a follower of that one.
    """
    recompiles = list(recompiles)
    callers = _callers(recompiles)
    groups: dict[tuple[str, ...], list[Recompile]] = {}
    for recompile, caller in zip(recompiles, callers, strict=True):
        if caller is None:
            key = (recompile.layer, *recompile.where.key, kind(recompile.reason))
            groups.setdefault(key, []).append(recompile)
    return [
        Repeats(tuple(group), _followers(group, recompiles, callers)) for group in groups.values()
    ]


def names_of(graphs: Sequence[str]) -> str:
    """Return the names of graphs that were made in a row: ``0/1``, ``0/1, 0/2``, ``0/1 to 0/9``."""
    if len(graphs) > MOST_NAMES:
        return f"{graphs[0]} to {graphs[-1]}"
    return ", ".join(graphs)


def _callers(recompiles: Sequence[Recompile]) -> list[Recompile | None]:
    """Return, for each recompile, the one that it follows: of a function that called it.

    It follows because of a value that a break left in the caller, or the same kind of change.
    """
    latest: dict[tuple[str, ...], Recompile] = {}
    callers: list[Recompile | None] = []
    for recompile in recompiles:
        calls = ((recompile.layer, *frame.key[:2]) for frame in recompile.stack)
        caller = next((latest[call] for call in calls if call in latest), None)
        if caller is not None and not _follows(recompile, caller):
            caller = None
        function = (recompile.layer, *recompile.where.key[:2])
        latest[function] = caller or recompile
        callers.append(caller)
    return callers


def _follows(recompile: Recompile, caller: Recompile) -> bool:
    if LEFT.search(recompile.reason):
        return True
    sizes = [TENSOR.match(again.reason) for again in (recompile, caller)]
    return all(sizes) and len({match["what"] for match in sizes if match}) == 1


def _followers(
    roots: Sequence[Recompile],
    recompiles: Sequence[Recompile],
    callers: Sequence[Recompile | None],
) -> tuple[tuple[Recompile, ...], ...]:
    groups: dict[tuple[str, ...], list[Recompile]] = {}
    for recompile, caller in zip(recompiles, callers, strict=True):
        if caller is not None and any(caller is root for root in roots):
            groups.setdefault(recompile.where.key[:2], []).append(recompile)
    return tuple(map(tuple, groups.values()))
