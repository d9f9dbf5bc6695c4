"""Finds several byte strings in one block, in their order.

Each needle is one bulk ``find`` over the block; Python runs only where one is found. This makes
gigabytes of MLIR cheap, since no line of it is looked at. Needles that occur only in lines of one
kind share a ``gate``, a string that is in each such line: without the gate, none of them is
searched for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heapreplace
from typing import Final, NamedTuple

from pytest_graphbreak.text.blocks import Block

# The prefixes of log lines: the process that printed a line, and the text without them.
#
# - The TT plugin prints with loguru: ``date time (uptime) [thread] file:line level| text``.
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
    # at the beginning of a line, or after the time stamp of a CI
    rb"|^(?:\d{4}-\d\d-\d\dT[\d:.]+Z )?(?:\x1b\[[\d;]*m)*"
    rb"(?:([A-Za-z0-9][\w.-]{0,62}) +\||\[pod/([^\]\s]{1,80})\]| {0,4}(\d{1,5}):)"
    rb"(?:\x1b\[[\d;]*m)* "
)
_THREAD: Final = re.compile(rb"\[ *([^\[\]\r\n]{1,16})\] *$")

REACH: Final = 4096
"""Maximum distance in bytes to the beginning of a line; lines of MLIR can be megabytes long."""


BEFORE: Final = 128
"""Maximum number of bytes before a prefix in its line."""


def begin(data: bytearray, at: int) -> int:
    """Return where the line of ``at`` begins, or the first byte of it in reach."""
    low = max(0, at - REACH)
    return data.rfind(b"\n", low, at) + 1 or low


def finish(data: bytearray, at: int, limit: int) -> int:
    """Return where the line of ``at`` ends (its line break, or ``limit``)."""
    end = data.find(b"\n", at, limit)
    return limit if end < 0 else end


def following(data: bytearray, end: int, limit: int, mark: bytes) -> int:
    """Return where ``mark`` is in the line after the one that ends at ``end``, or -1.

    It may be preceded by what launchers put before lines: ranks, time stamps, colours.
    """
    at = data.find(mark, end + 1, min(end + 1 + BEFORE + len(mark), limit))
    return -1 if at < 0 or data.find(b"\n", end + 1, at) >= 0 else at


def rank(data: bytearray, line: int, at: int) -> str:
    """Return the process that printed a line, as its launcher names it, or empty."""
    return rank_name(bytes(data[max(line, at - BEFORE) : at]))


def rank_name(prefix: bytes) -> str:
    """Return the rank in the text before a prefix."""
    found = _RANK.search(prefix)
    return next(filter(None, found.groups())).decode() if found else ""


def thread(data: bytearray, at: int) -> str:
    """Return the thread in a loguru preamble that ends at ``at`` (where the file name begins)."""
    found = _THREAD.search(data, max(0, at - 64), at)
    return found[1].decode("utf-8", "backslashreplace") if found else ""


def text(raw: bytes) -> str:
    """Return log bytes as text: without colours and line end, with invalid UTF-8 escaped."""
    return ANSI.sub(b"", raw).rstrip(b"\r\n").decode("utf-8", "backslashreplace")


REGION: Final = 16 * 1024
"""Bytes after a gate in which its needles are searched for."""

Span = tuple[int, int]


class Needle(NamedTuple):
    """A string to find. ``handle(block, at)`` is called for each hit and returns where to go on."""

    text: bytes
    handle: Callable[[Block, int], int]


class Group(NamedTuple):
    """Needles that are searched for where ``gate`` is found, or everywhere if it is empty."""

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
    """The search for one needle; a hit belongs to the span in which it begins."""

    __slots__ = ("_data", "_limit", "_more", "_spans", "needle")

    def __init__(self, block: Block, needle: Needle, spans: list[Span]) -> None:
        self.needle = needle
        self._data = block.data
        self._limit = block.limit
        self._more = len(needle.text) - 1
        self._spans = spans[::-1]

    def next(self, onward: int) -> int:
        """Return the first hit at or after ``onward``, which never decreases, or -1."""
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
    """Return the parts of a block after a gate, each up to the end of a line."""
    if not gate:
        return [(block.start, block.end)]
    data = block.data
    spans = []
    at = data.find(gate, block.start, block.end)
    while at >= 0:
        # A line longer than a block may begin before the new part.
        end = data.find(b"\n", min(at + REGION, block.end), block.end)
        end = block.end if end < 0 else end + 1
        spans.append((at, end))
        at = data.find(gate, end, block.end)
    return spans
