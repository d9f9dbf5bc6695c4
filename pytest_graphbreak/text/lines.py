"""The prefixes that log lines carry: who printed a line, and what is left without them.

- The TT plugin prints by loguru: ``date time (uptime) [thread] file:line level| text``.
- Torch prints ``V0821 10:22:52.123000 PID file:line] [compile id] [artifact] text``
  (torch/_logging/_internal.py, TorchLogsFormatter), on every line of a record.
- mpirun and torchrun put the rank before everything: ``[1,0]<stderr>:``, ``[rank0]:``; so do
  docker compose (``worker-1  | ``), kubectl (``[pod/worker-0/main] ``) and srun (``0: ``).

Other text may come before a prefix (a CI's time stamps, half a line of another
thread), so nothing here is tied to the beginning of a line.
"""

from __future__ import annotations

import re
from typing import Final

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
