"""The prefixes of log lines: the process that printed a line, and the text without them.

- The TT plugin prints with loguru: ``date time (uptime) [thread] file:line level| text``.
- Torch prints ``V0821 10:22:52.123000 PID file:line] [compile id] [artifact] text``
  (torch/_logging/_internal.py, TorchLogsFormatter), on every line of a record.
- mpirun and torchrun put the rank before everything: ``[1,0]<stderr>:``, ``[rank0]:``; so do
  docker compose (``worker-1  | ``), kubectl (``[pod/worker-0/main] ``) and srun (``0: ``).

Other text may come before a prefix (a CI's time stamps, half a line of another thread), so
nothing here is tied to the beginning of a line. The readers of logs (``logs.torch_lines``,
``layers.tt.log``) find a prefix by a mark in it; ``rank`` and ``thread`` are asked with what comes
``before`` it. The characters of a line are bytes (``text.lines``) until ``text`` makes words.
"""

from __future__ import annotations

import re
from typing import Final

ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""A colour, or another code for a terminal."""

_RANK: Final = re.compile(
    # [1,0]<stderr>:   [rank0]:
    r"\[(?:(\d+,\d+)\]<std(?:out|err)>|((?:rank|default)\d+)\]):"
    # worker-1  |   [pod/worker-0/main]   0:
    # These are only at the beginning of a line, or after the time stamp of a CI.
    r"|^(?:\d{4}-\d\d-\d\dT[\d:.]+Z )?(?:\x1b\[[\d;]*m)*"
    r"(?:([A-Za-z0-9][\w.-]{0,62}) +\||\[pod/([^\]\s]{1,80})\]| {0,4}(\d{1,5}):)"
    r"(?:\x1b\[[\d;]*m)* ",
    re.A,
)
# (  12.345s) [        421D1300] module_builder.cc: up to the file name
_THREAD: Final = re.compile(r"\[ *([^\[\]\r\n]{1,16})\] *$")

REACH: Final = 4096
"""Maximum distance in bytes from a mark to what belongs to it in its line.

Lines of MLIR can be megabytes long, and nobody searches all of that.
"""

BEFORE: Final = 128
"""Maximum number of bytes before a prefix in its line."""


def rank(before: str) -> str:
    """Return the process that printed a line, as its launcher names it; empty without a launcher.

    ``1,0`` of mpirun, ``rank0`` of torchrun, ``worker-1`` of docker compose.
    """
    match = _RANK.search(before, max(0, len(before) - BEFORE))
    return next(filter(None, match.groups())) if match else ""


def thread(before: str) -> str:
    """Return the thread in a loguru preamble, given up to where the file name begins."""
    match = _THREAD.search(before[-64:])
    return text(match[1]) if match else ""


def text(raw: str) -> str:
    """Return the words of a line whose characters are bytes: UTF-8, without colours and line end.

    Invalid UTF-8 is escaped.
    """
    words = ANSI.sub("", raw).rstrip("\r\n")
    return words if words.isascii() else words.encode("latin-1").decode("utf-8", "backslashreplace")
