"""Tells header lines that stand in a log a second time from those of another graph.

Where standard error and ``TTXLA_LOGGER_FILE`` go to one file, or were put into one afterwards,
each header is there twice: one after the other, as loguru writes to both under one lock, or in
a block, where one file was appended to the other. In either order: only the lines of standard
error have the text of a module behind them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from pytest_graphbreak.layers.tt.programs import Program
from pytest_graphbreak.text.lines import ANSI

_STAMP: Final = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \(")
KEPT: Final = 200_000
"""Lines remembered, by hash: those of about 20,000 graphs. Later ones are taken as new."""


@dataclass(slots=True)
class _HeaderThread:
    """``latest``: the time stamp of its last new line.

    ``copying``: its lines are copies now, ``telling``: with the text that the first ones lack.
    """

    latest: bytes = b""
    copying: bool = False
    telling: bool = False


class Copies:
    """Follows the header lines of one log.

    ``count`` were copies, ``adjacent`` of them right behind their line; ``unsure`` may have been.
    Lines of one millisecond may be equal and yet of two graphs, so a line is only taken for
    a copy if it follows itself at once, or if time went back in its thread and a module follows
    only one of the two: none follows a line of ``TTXLA_LOGGER_FILE``. ``told`` is the graph that
    the line of the last copy has begun, where the text of its module comes only with the copy.
    """

    def __init__(self) -> None:
        self.count = 0
        self.adjacent = 0
        self.unsure = 0
        self.told: Program | None = None
        self._seen: set[int] = set()
        self._alone: dict[int, Program | None] = {}
        self._threads: dict[tuple[str, str], _HeaderThread] = {}
        self._last = 0

    def between(self) -> None:
        """Something of another kind was printed: the next line does not follow the last."""
        self._last = 0

    def is_copy(self, rank: str, thread: str, line: bytes, alone: bool) -> bool:
        """Whether this header stands in the log before. Without a time stamp it cannot be told.

        ``alone``: no text of a module follows it.
        """
        plain = ANSI.sub(b"", line).rstrip()
        found = _STAMP.search(plain)
        if found is None:
            return False
        key = hash((rank, plain[found.start() :]))
        known, follows, self._last = key in self._seen, key == self._last, key
        state = self._threads.setdefault((rank, thread), _HeaderThread())
        back = state.copying or state.telling or found[0] < state.latest
        again = known and not follows and back
        state.copying = again and alone
        state.telling = again and not alone and key in self._alone
        self.told = self._alone.pop(key, None) if state.telling else None
        if follows or state.copying or state.telling:
            self.count += 1
            self.adjacent += follows
            return True
        self.unsure += known
        state.latest = max(state.latest, found[0])
        if len(self._seen) < KEPT:
            self._seen.add(key)
            if alone:
                self._alone[key] = None
        return False

    def begins(self, program: Program) -> None:
        """The line that was new begins this graph."""
        if self._last in self._alone:
            self._alone[self._last] = program
