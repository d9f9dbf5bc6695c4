"""Groups recompiles by function: a loop that compiles at each step, and its consequences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_graphbreak.layers.dynamo.messages import UNNAMED
from pytest_graphbreak.model.record import Recompile

SERIES = 3
"""The number of recompiles of one kind from which they are reported as a loop."""

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_CURRENT = re.compile(r" \(([^()]* now)\)$")
_TENSOR = re.compile(r"^tensor '(?P<name>.+?)' (?P<what>size|rank|stride|dtype) mismatch")
_WENT = re.compile(r"^(?P<name>.+?) went from (?P<what>shape )?")
_VALUE = re.compile(r"^(?P<name>\S+) ==")
_LENGTH = re.compile(r"^len\((?P<name>.{1,200})\) == \d+")
_SIZE = re.compile(r"(?P<name>[\w.\[\]']{1,200})\.(?:size\(\)|shape)\[")
_SHAPE = {"size": "shape", "rank": "shape"}
_NAMED = re.compile(r"(?:shape|dtype|type|stride|value|length) of ")
_STATIC = re.compile(r"^the static argument (?P<name>[^\s:]+): ")
_ARRAY = re.compile(
    r"^at (?P<name>[^\s:]+): \w+(?P<shape>\[[\d,]*\]) before, \w+(?P<now>\[[\d,]*\]) now"
)
_OPERATION = re.compile(r"^(?P<name>[\w:]+) makes \w+\[[^\]]*\], made ")
_LEFT = re.compile(r"'?___stack(\d+)'?")
_IMPORTED = re.compile(r"__import_(\w+)")
_FREED = re.compile(r"^Cache line invalidated because (\S+) got deallocated$")
_IDENTITY = re.compile(r"^___check_(obj|type)_id\(([^\s,()]+), [^\s()]*\)")


def without_numbers(reason: str) -> str:
    """Return a reason without its numbers, which depend on the inputs."""
    return _NUMBER.sub("#", reason)


@dataclass(frozen=True, slots=True)
class Repeats:
    """Recompiles of one function that fail one guard.

    ``followers`` are the recompiles of functions that it calls and that were therefore recompiled
    with it, grouped by function.
    """

    items: tuple[Recompile, ...]
    followers: tuple[tuple[Recompile, ...], ...] = ()

    @property
    def first(self) -> Recompile:
        return self.items[0]

    @property
    def last(self) -> Recompile:
        return self.items[-1]

    @property
    def times(self) -> int:
        return len(self.items)

    @property
    def is_loop(self) -> bool:
        return self.times >= SERIES

    @property
    def graphs(self) -> str:
        return f"{self.first.graph} to {self.last.graph}" if self.is_loop else self.first.graph

    @property
    def reason(self) -> str:
        """The reason: ``+1 graph at each call with another value of n: n == 3, ...``."""
        first, last = plainly(self.first.reason), plainly(self.last.reason)
        if not self.is_loop:
            return first
        both = first if first == last else f"{first}, ... {last}"
        what = varied(self.first.reason)
        another = f" with another {what}" if _NAMED.match(what) else ""
        return f"+1 graph at each call{another}, {self.times} times: {both}"

    @property
    def since(self) -> str:
        """The reason why its callees are recompiled: ``x has shape [3, 4] now``."""
        found = _CURRENT.search(self.last.reason)
        return found[1] if found else f"{plainly(self.last.reason)} failed"


def series(items: Iterable[Recompile]) -> list[Repeats]:
    """Return the series in order of first appearance; groups below ``SERIES`` are split up.

    A function that is recompiled inside a call of a recompiled one is a follower of that one.
    """
    items = list(items)
    callers = _callers(items)
    kinds: dict[tuple[str, ...], list[Recompile]] = {}
    for item, caller in zip(items, callers, strict=True):
        if caller is not None:
            continue
        kind = without_numbers(_CURRENT.sub("", item.reason))
        kinds.setdefault((item.layer, *item.where.key, kind), []).append(item)
    found = []
    for same in kinds.values():
        if len(same) >= SERIES:
            found.append(Repeats(tuple(same), _followers(same, items, callers)))
        else:
            found += [Repeats((item,), _followers([item], items, callers)) for item in same]
    return found


def _callers(items: Sequence[Recompile]) -> list[Recompile | None]:
    """Return, for each recompile, the one that it follows: of a function that called it.

    It follows because of a value that a break left in the caller, or the same kind of change.
    """
    latest: dict[tuple[str, ...], Recompile] = {}
    found: list[Recompile | None] = []
    for item in items:
        calls = ((item.layer, *frame.key[:2]) for frame in item.stack)
        caller = next((latest[call] for call in calls if call in latest), None)
        if caller is not None and not _follows(item, caller):
            caller = None
        own = (item.layer, *item.where.key[:2])
        latest[own] = caller or item
        found.append(caller)
    return found


def _follows(item: Recompile, caller: Recompile) -> bool:
    if _LEFT.search(item.reason):
        return True
    kinds = [_TENSOR.match(one.reason) for one in (item, caller)]
    return all(kinds) and len({found["what"] for found in kinds if found}) == 1


def _followers(
    roots: Sequence[Recompile], items: Sequence[Recompile], callers: Sequence[Recompile | None]
) -> tuple[tuple[Recompile, ...], ...]:
    found: dict[tuple[str, ...], list[Recompile]] = {}
    for item, caller in zip(items, callers, strict=True):
        if caller is not None and any(caller is root for root in roots):
            found.setdefault(item.where.key[:2], []).append(item)
    return tuple(map(tuple, found.values()))


def plainly(reason: str) -> str:
    """Return a guard with names that Dynamo made up removed or explained."""
    reason = _LEFT.sub(r"a value that the break left (___stack\1)", reason, count=1)
    reason = _IMPORTED.sub(lambda found: found[1].replace("_dot_", "."), reason)
    if found := _FREED.match(reason):
        return f"{found[1]} is another object now, and the one before is gone"
    if found := _IDENTITY.match(reason):
        what = "another object" if found[1] == "obj" else "of another type"
        return f"{found[2]} is {what} now ({found[0]})"
    return reason


def varied(reason: str) -> str:
    """Return what a failed guard is about, without values: ``shape of x``, ``value of self.k``.

    The result is empty if the compiler did not say which guard failed.
    """
    reason = plainly(reason)
    if found := _TENSOR.match(reason):
        return f"{_SHAPE.get(found['what'], found['what'])} of {found['name']}"
    if found := _WENT.match(reason):
        return f"{'shape' if found['what'] else 'value'} of {found['name']}"
    if found := _LENGTH.match(reason):
        return f"length of {found['name']}"
    if found := _VALUE.match(reason) or _STATIC.match(reason):
        return f"value of {found['name']}"
    if found := _ARRAY.match(reason):
        return f"{'type' if found['shape'] == found['now'] else 'shape'} of {found['name']}"
    if found := _OPERATION.match(reason):
        return f"shape of {found['name']}"
    if found := _SIZE.search(reason):
        return f"shape of {found['name']}"
    return "" if reason == UNNAMED else without_numbers(_CURRENT.sub("", reason))
