"""The part of a difference that touches a place: unified diffs, read and cut. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

_START: Final = re.compile(r"^(?=@@ -)", re.MULTILINE)
_HEAD: Final = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_SIGNS: Final = ("+", "-", " ", "\\")
LONGEST: Final = 40
"""Lines of one hunk that are shown."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """One hunk. ``old`` and ``new`` are the first line and the number of lines on each side."""

    head: str
    old: tuple[int, int]
    new: tuple[int, int]
    lines: tuple[str, ...]

    def touches(self, line: int, *, new: bool) -> bool:
        """Whether it shows this line (from 1) of the new text, or of the old one."""
        first, count = self.new if new else self.old
        return first <= line < first + count

    def around(self, line: int, *, new: bool) -> Iterator[str]:
        """The head, and the lines about this one; how many are left out is said."""
        at = self._index(line, new=new)
        start = max(0, min(at - LONGEST // 2, len(self.lines) - LONGEST))
        shown = self.lines[start : start + LONGEST]
        yield self.head
        if start:
            yield f"... {start:,} lines"
        yield from shown
        if rest := len(self.lines) - start - len(shown):
            yield f"... {rest:,} more lines"

    def _index(self, line: int, *, new: bool) -> int:
        """Which of its lines is this one of the new text, or of the old one."""
        number = (self.new if new else self.old)[0] - 1
        for index, text in enumerate(self.lines):
            number += text[:1] not in ("-" if new else "+", "\\")
            if number == line:
                return index
        return 0


def read(text: str) -> list[Hunk]:
    """Return the hunks of the diff of one file."""
    return list(_hunks(text))


def _hunks(text: str) -> Iterator[Hunk]:
    for part in _START.split(text)[1:]:
        head, *rest = part.split("\n")
        if match := _HEAD.match(head):
            old, old_count, new, new_count = match.groups(default="1")
            body = tuple(takewhile(lambda line: line[:1] in _SIGNS, rest))
            yield Hunk(head, (int(old), int(old_count)), (int(new), int(new_count)), body)
