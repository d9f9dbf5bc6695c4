"""Finds several byte strings in one block, in their order.

Each needle is one bulk ``find`` over the block; Python runs only where one is
hit. That is what makes gigabytes of MLIR cheap: no line of it is looked at.
Needles that occur only in lines of one kind share a ``gate``, a string that is
in each such line: where the gate is not, none of them is searched for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heapreplace
from typing import Final, NamedTuple

from pytest_graphbreak.text.blocks import Block

# The prefixes that log lines carry: who printed a line, and what is left without them.
#
# - The TT plugin prints by loguru: ``date time (uptime) [thread] file:line level| text``.
# - Torch prints ``V0821 10:22:52.123000 PID file:line] [compile id] [artifact] text``
#   (torch/_logging/_internal.py, TorchLogsFormatter), on every line of a record.
# - mpirun and torchrun put the rank before everything: ``[1,0]<stderr>:``, ``[rank0]:``; so do
#   docker compose (``worker-1  | ``), kubectl (``[pod/worker-0/main] ``) and srun (``0: ``).
#
# Other text may come before a prefix (a CI's time stamps, half a line of another thread), so
# nothing here is tied to the beginning of a line.

ANSI: Final = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")

_RANK: Final = re.compile(
    rb"\[(?:(\d+,\d+)\]<std(?:out|err)>|((?:rank|default)\d+)\]):"
    # At the beginning of a line, or after the time stamp of a CI.
    rb"|^(?:\d{4}-\d\d-\d\dT[\d:.]+Z )?(?:\x1b\[[\d;]*m)*"
    rb"(?:([A-Za-z0-9][\w.-]{0,62}) +\||\[pod/([^\]\s]{1,80})\]| {0,4}(\d{1,5}):)"
    rb"(?:\x1b\[[\d;]*m)* "
)
_THREAD: Final = re.compile(rb"\[ *([^\[\]\r\n]{1,16})\] *$")

REACH: Final = 4096
"""How far back the beginning of a line is looked for; lines of MLIR can be megabytes long."""


BEFORE: Final = 128
"""Bytes that may come before a prefix in its line."""


def begin(data: bytearray, at: int) -> int:
    """Where the line of ``at`` begins, or the oldest byte of it in reach."""
    low = max(0, at - REACH)
    return data.rfind(b"\n", low, at) + 1 or low


def finish(data: bytearray, at: int, limit: int) -> int:
    """Where the line of ``at`` ends (its line break, or ``limit``)."""
    end = data.find(b"\n", at, limit)
    return limit if end < 0 else end


def following(data: bytearray, end: int, limit: int, mark: bytes) -> int:
    """Where ``mark`` is in the line after the one that ends at ``end``; -1 if not at its begin.

    Before it there may be what others put before lines: ranks, time stamps, colours.
    """
    at = data.find(mark, end + 1, min(end + 1 + BEFORE + len(mark), limit))
    return -1 if at < 0 or data.find(b"\n", end + 1, at) >= 0 else at


def rank(data: bytearray, line: int, at: int) -> str:
    """The process that printed a line, as its launcher names it; empty without a launcher."""
    return rank_name(bytes(data[max(line, at - BEFORE) : at]))


def rank_name(prefix: bytes) -> str:
    """The rank in the text before a prefix."""
    found = _RANK.search(prefix)
    return next(filter(None, found.groups())).decode() if found else ""


def thread(data: bytearray, at: int) -> str:
    """The thread in a loguru preamble that ends at ``at`` (where the file name begins)."""
    found = _THREAD.search(data, max(0, at - 64), at)
    return found[1].decode("utf-8", "backslashreplace") if found else ""


def text(raw: bytes) -> str:
    """Readable text of log bytes: no colours, no line end, bytes that are no UTF-8 escaped."""
    return ANSI.sub(b"", raw).rstrip(b"\r\n").decode("utf-8", "backslashreplace")


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
