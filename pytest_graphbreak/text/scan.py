"""Finds several byte strings in one block, in their order.

Each needle is one bulk ``find`` over the block; Python runs only where one is
hit. That is what makes gigabytes of MLIR cheap: no line of it is looked at.
Needles that occur only in lines of one kind share a ``gate``, a string that is
in each such line: where the gate is not, none of them is searched for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heapreplace
from typing import Final, NamedTuple

from pytest_graphbreak.text.blocks import Block

REGION: Final = 16 * 1024
"""Bytes after a gate in which its needles are searched for."""

Span = tuple[int, int]


class Needle(NamedTuple):
    """``handle(block, at)`` is called for each hit and returns where to search on."""

    text: bytes
    handle: Callable[[Block, int], int]


class Group(NamedTuple):
    """Needles that are searched for where ``gate`` is, or everywhere."""

    needles: Sequence[Needle]
    gate: bytes = b""


def scan(block: Block, groups: Sequence[Group]) -> None:
    """Call the handlers of all needles for the new part of a block, from left to right."""
    searches = [
        _Search(block, needle, spans)
        for group in groups
        for spans in [_spans(block, group.gate)]
        for needle in group.needles
        if spans
    ]
    hits = [
        (at, index)
        for index, search in enumerate(searches)
        if (at := search.next(block.start)) >= 0
    ]
    heapify(hits)
    while hits:
        at, index = hits[0]
        search = searches[index]
        onward = max(search.needle.handle(block, at), at + 1)
        at = search.next(onward)
        if at < 0:
            heappop(hits)
        else:
            heapreplace(hits, (at, index))


class _Search:
    """One needle over the spans of a block. A hit belongs to the span in which it begins."""

    __slots__ = ("_data", "_limit", "_more", "_spans", "needle")

    def __init__(self, block: Block, needle: Needle, spans: list[Span]) -> None:
        self.needle = needle
        self._data = block.data
        self._limit = block.limit
        self._more = len(needle.text) - 1
        self._spans = spans[::-1]

    def next(self, onward: int) -> int:
        """The first hit at or after ``onward``, which never goes back; -1 if there is none."""
        spans = self._spans
        while spans:
            start, end = spans[-1]
            at = self._data.find(
                self.needle.text, max(start, onward), min(end + self._more, self._limit)
            )
            if at >= 0:
                return at
            spans.pop()
        return -1


def _spans(block: Block, gate: bytes) -> list[Span]:
    """The parts of a block in which a gate opens, each to the end of a line."""
    if not gate:
        return [(block.start, block.end)]
    data = block.data
    spans = []
    at = data.find(gate, block.start, block.end)
    while at >= 0:
        # A line longer than a block may have its beginning before the new part.
        end = data.find(b"\n", min(at + REGION, block.end), block.end)
        end = block.end if end < 0 else end + 1
        spans.append((at, end))
        at = data.find(gate, end, block.end)
    return spans
