"""Changing entries in the text of a baseline file; every other byte stays as it is.

An entry is replaced whole, removed or added; entries are the tests of a file, and the cases of a
test. An entry begins with the line of its key and ends with its last line, or the comment lines
directly below that are indented deeper than its key. Where it is removed, the comment lines
directly above it that are not indented deeper go with it, and the blank lines on one side. A new
one follows the last one, and follows a blank line if that one does.
"""

from __future__ import annotations

from collections.abc import Mapping as Map
from collections.abc import Sequence
from typing import Any

from pytest_graphbreak.baseline.render import INDENT, inline, is_inline, item_lines, lines
from pytest_graphbreak.baseline.tree import Mapping, end_of, start_of

Lines = list[str]


class Editor:
    """Collects edits of one text, then applies them all.

    ``text`` has no byte order mark and is the one that the nodes were parsed from.
    """

    def __init__(self, text: str) -> None:
        self.newline = "\r\n" if "\r\n" in text[: text.find("\n") + 1] else "\n"
        self.open_end = not text.endswith("\n")
        self.text = text + self.newline if self.open_end else text
        self.edits: list[tuple[int, int, str]] = []

    def result(self) -> str:
        """The text with all edits made."""
        parts: list[str] = []
        done = 0
        # At one place, what is inserted comes in the order in which it was asked for.
        for start, end, new in sorted(self.edits, key=lambda edit: edit[:2]):
            parts += (self.text[done:start], new)
            done = max(done, end)
        parts.append(self.text[done:])
        text = "".join(parts)
        cut = any(start < end == len(self.text) and not new for start, end, new in self.edits)
        return text.removesuffix(self.newline) if self.open_end and not cut else text

    def entries(self, node: Mapping, changed: Map[str, Lines | None]) -> None:
        """Replace entries by lines, remove those that are None, and add those that are not there.

        ``node`` is in block style, and at least one of its entries stays.
        """
        regions = self.regions(node)
        names = list(regions)
        for at, name in enumerate(names):
            if name not in changed:
                continue
            start, end = regions[name]
            new = changed[name]
            if new is None:
                floor = regions[names[at - 1]][1] if at else 0
                start = self._above(start, node.column, floor)
                is_last = all(changed.get(later, "") is None for later in names[at:])
                start, end = self._with_blanks(start, end, floor, is_last)
            self.replace(start, end, new or [])
        last = regions[names[-1]]
        above = regions[names[-2]][1] if len(names) > 1 else last[0]
        between = self.text[above : self._above(last[0], node.column, above)]
        spaced = bool(between) and not between.strip()
        for name, new in changed.items():
            if name not in regions and new is not None:
                self.insert(last[1], ["", *new] if spaced else new)

    def value(self, root: Mapping, name: str, value: Map[str, Any], order: Sequence[str]) -> None:
        """Give a key of a mapping in block style a new value; ``order`` is that of its keys."""
        if name not in root.items:
            before = [key for key in order[: order.index(name)] if key in root.items]
            at = self.regions(root)[before[-1]][1]
            self.insert(at, item_lines(name, value, root.column))
            return
        key, node = root.items[name]
        assert isinstance(node, Mapping)
        if not node.flow:
            self.replace(*self.regions(root)[name], item_lines(name, value, root.column))
        elif is_inline(value):
            self.edits.append((node.start, node.end, inline(value)))
        else:
            self.edits.append((end_of(key) + 1, node.end, ""))
            self.insert(self._line_end(node.end), lines(value, root.column + INDENT))

    def has_lines(self, node: Mapping) -> bool:
        """Whether each key of a mapping begins a line."""
        starts = (start_of(key) for key, _ in node.items.values())
        return not node.flow and all(
            self.text[self._line_start(at) : at].strip() in ("", "?") for at in starts
        )

    def regions(self, node: Mapping) -> dict[str, tuple[int, int]]:
        """The lines of each entry of a mapping in block style: where they start and end."""
        found = {}
        for name, (key, value) in node.items.items():
            end = self._line_end(self._leaf_end(end_of(value)))
            while self._comment_column(end) > node.column:
                end = self._line_end(end)
            found[name] = (self._line_start(start_of(key)), end)
        return found

    def replace(self, start: int, end: int, new: Lines) -> None:
        self.edits.append((start, end, "".join(line + self.newline for line in new)))

    def insert(self, position: int, new: Lines) -> None:
        self.replace(position, position, new)

    def _above(self, start: int, column: int, floor: int) -> int:
        """Where the comment lines begin that belong to the entry below them."""
        while start > floor and 0 <= self._comment_column(start - 1) <= column:
            start = self._line_start(start - 1)
        return start

    def _with_blanks(self, start: int, end: int, floor: int, is_last: bool) -> tuple[int, int]:
        """The lines of an entry that goes, and the blank lines on one side of them."""
        above, below = start, end
        while above > floor and self._is_blank(above - 1):
            above = self._line_start(above - 1)
        while below < len(self.text) and self._is_blank(below):
            below = self._line_end(below)
        if above == start or (below == end and not is_last):
            return start, end
        return (start, below) if below > end else (above, end)

    def _is_blank(self, position: int) -> bool:
        return not self.text[self._line_start(position) : self._line_end(position)].strip()

    def _line_start(self, position: int) -> int:
        return self.text.rfind("\n", 0, position) + 1

    def _line_end(self, position: int) -> int:
        """Return the position after the line break of the line that ``position`` is on."""
        found = self.text.find("\n", position)
        return len(self.text) if found < 0 else found + 1

    def _leaf_end(self, position: int) -> int:
        """The end of a node without the blank lines that a block scalar's mark includes."""
        while self.text[position - 1].isspace():
            position -= 1
        return position

    def _comment_column(self, position: int) -> int:
        """Return the column of a comment that has a line of its own; -1 for any other line."""
        line = self.text[self._line_start(position) : self._line_end(position)]
        return len(line) - len(line.lstrip(" ")) if line.lstrip(" ").startswith("#") else -1
