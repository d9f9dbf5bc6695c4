"""The part of a difference that touches a place: unified diffs, read and cut. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_HUNK: Final = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
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
    """The hunks of the diff of one file."""
    found: list[Hunk] = []
    lines = text.split("\n")
    number = 0
    while number < len(lines):
        match = _HUNK.match(lines[number])
        if match is None:
            number += 1
            continue
        head = lines[number]
        old = (int(match[1]), int(match[2] or 1))
        new = (int(match[3]), int(match[4] or 1))
        body, number = _body(lines, number + 1, old[1], new[1])
        found.append(Hunk(head, old, new, tuple(body)))
    return found


def _body(lines: Sequence[str], number: int, old: int, new: int) -> tuple[list[str], int]:
    """The lines of a hunk: as many of both sides as its head says, whatever they look like."""
    body: list[str] = []
    while number < len(lines) and (old > 0 or new > 0):
        line = lines[number]
        sign = line[:1]
        if sign not in ("+", "-", " ", "\\", ""):
            break
        old -= sign in ("-", " ", "")
        new -= sign in ("+", " ", "")
        body.append(line)
        number += 1
    return body, number
