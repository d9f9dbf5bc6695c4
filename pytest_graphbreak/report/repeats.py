"""Recompiles of one function for one reason, as one line: a loop that compiles at each step."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pytest_graphbreak.model.record import Recompile

SERIES = 3
"""So many recompiles of one kind are told as a loop and not one by one."""

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_NOW = re.compile(r" \([^()]* now\)$")
_TENSOR = re.compile(r"^tensor '(?P<name>.+?)' (?P<what>size|rank|stride|dtype) mismatch")
_WENT = re.compile(r"^(?P<name>.+?) went from (?P<what>shape )?")
_VALUE = re.compile(r"^(?P<name>\S+) ==")


@dataclass(frozen=True, slots=True)
class Repeats:
    """Recompiles of one function, the first and the last of ``times`` that fail one guard."""

    first: Recompile
    last: Recompile
    times: int

    @property
    def is_loop(self) -> bool:
        return self.times >= SERIES

    @property
    def graphs(self) -> str:
        return f"{self.first.graph} to {self.last.graph}" if self.is_loop else self.first.graph

    @property
    def reason(self) -> str:
        """``+1 graph at each call with another value of n: n == 3 (n is 4 now), ...``."""
        if not self.is_loop:
            return self.first.reason
        return (
            f"+1 graph at each call{_with_another(self.first.reason)}, {self.times} times: "
            f"{self.first.reason}, ... {self.last.reason}"
        )


def series(items: Iterable[Recompile]) -> list[Repeats]:
    """In order of first appearance; fewer than ``SERIES`` of a kind stay on their own."""
    kinds: dict[tuple[str, ...], list[Recompile]] = {}
    for item in items:
        kind = _NUMBER.sub("#", _NOW.sub("", item.reason))
        kinds.setdefault((item.layer, *item.where.key, kind), []).append(item)
    found = []
    for same in kinds.values():
        if len(same) >= SERIES:
            found.append(Repeats(same[0], same[-1], len(same)))
        else:
            found += [Repeats(item, item, 1) for item in same]
    return found


def _with_another(reason: str) -> str:
    if found := _TENSOR.match(reason):
        what = "shape" if found["what"] in ("size", "rank") else found["what"]
        return f" with another {what} of {found['name']}"
    if found := _WENT.match(reason):
        return f" with another {'shape' if found['what'] else 'value'} of {found['name']}"
    if found := _VALUE.match(reason):
        return f" with another value of {found['name']}"
    return ""
