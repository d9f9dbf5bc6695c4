"""Changes entries in the text of a baseline file; every other byte stays as it is.

An entry is replaced as a whole, removed or added; entries are the tests of a file, and the cases
of a test. An entry begins with the line of its key and ends with its last line, or with the
comment lines directly below that are indented deeper than its key. When an entry is removed, so
are the comment lines directly above it that are not indented deeper, and the blank lines on one
side. A new entry follows the last one, after a blank line if there is one before that one.
"""

from __future__ import annotations

from collections.abc import Mapping as Map
from collections.abc import Sequence
from typing import Any

from pytest_graphbreak.baseline.render import INDENT, inline, is_inline, item_lines, lines
from pytest_graphbreak.baseline.tree import Mapping, end_of, start_of

Lines = list[str]
"""Lines without line ends, indented, as ``render`` makes them."""


class Editor:
    """Collects edits of one text, then applies them all.

    ``text`` has no byte order mark and is the text that the nodes were parsed from: all positions
    are offsets into it. An edit is a start, an end and the new text between them. ``floor`` is the
    end of the entry above, which an edit of the next one never reaches.
    """

    def __init__(self, text: str) -> None:
        self.newline = "\r\n" if "\r\n" in text[: text.find("\n") + 1] else "\n"
        self.open_end = not text.endswith("\n")
        self.text = text + self.newline if self.open_end else text
        self.edits: list[tuple[int, int, str]] = []

    def result(self) -> str:
        """Return the text with all edits applied."""
        parts: list[str] = []
        done = 0
        # Insertions at the same place are made in the order in which they were requested.
        for start, end, new in sorted(self.edits, key=lambda edit: edit[:2]):
            parts += (self.text[done:start], new)
            done = max(done, end)
        parts.append(self.text[done:])
        text = "".join(parts)
        # The last line keeps its missing line end, unless it was removed.
        cut = any(start < end == len(self.text) and not new for start, end, new in self.edits)
        return text.removesuffix(self.newline) if self.open_end and not cut else text

    def entries(
        self, node: Mapping, changed: Map[str, Lines | None], *, by_name: bool = False
    ) -> None:
        """Replace entries by lines, remove those that are None, and add new ones at the end.

        ``node`` is in block style, and at least one of its entries stays. With ``by_name``, a new
        entry comes before the first one with a later name.
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
                # A name that is not in ``changed`` stays: no None.
                is_last = all(changed.get(later, "") is None for later in names[at:])
                start, end = self._range_with_blanks(start, end, floor, is_last)
            self.replace(start, end, new or [])
        last = regions[names[-1]]
        above = regions[names[-2]][1] if len(names) > 1 else last[0]
        between = self.text[above : self._above(last[0], node.column, above)]
        spaced = bool(between) and not between.strip()
        for name in sorted(changed.keys() - regions.keys()) if by_name else changed:
            new = changed[name]
            later = next((after for after in names if by_name and after > name), None)
            if name in regions or new is None:
                continue
            if later is not None:
                self.insert(self._insert_position(regions, names, later, node.column), new)
            else:
                self.insert(last[1], ["", *new] if spaced else new)

    def _insert_position(
        self, regions: Map[str, tuple[int, int]], names: Sequence[str], name: str, column: int
    ) -> int:
        """Return the start of an entry, with the comment lines above that belong to it."""
        at = names.index(name)
        return self._above(regions[name][0], column, regions[names[at - 1]][1] if at else 0)

    def set_mapping(
        self, root: Mapping, name: str, value: Map[str, Any], order: Sequence[str]
    ) -> None:
        """Set the value of a key of a mapping in block style; ``order`` has all keys."""
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

    def set_text(self, root: Mapping, name: str, text: str) -> None:
        """Set the text of a key that is there."""
        key, node = root.items[name]
        self.edits.append((end_of(key) + 1, end_of(node), f" {inline(text)}"))

    def has_lines(self, node: Mapping) -> bool:
        """Return whether each key of a mapping begins a line; a long one does after ``?``."""
        starts = (start_of(key) for key, _ in node.items.values())
        return not node.flow and all(
            self.text[self._line_start(at) : at].strip() in ("", "?") for at in starts
        )

    def regions(self, node: Mapping) -> dict[str, tuple[int, int]]:
        """Return the range of lines of each entry of a mapping in block style: start and end.

        They are offsets into the text before any edit, in the order of the file.
        """
        regions = {}
        for name, (key, value) in node.items.items():
            end = self._line_end(self._leaf_end(end_of(value)))
            while self._comment_column(end) > node.column:
                end = self._line_end(end)
            regions[name] = (self._line_start(start_of(key)), end)
        return regions

    def replace(self, start: int, end: int, new: Lines) -> None:
        self.edits.append((start, end, "".join(line + self.newline for line in new)))

    def insert(self, position: int, new: Lines) -> None:
        self.replace(position, position, new)

    def _above(self, start: int, column: int, floor: int) -> int:
        """Return where the comment lines begin that belong to the entry below them."""
        while start > floor and 0 <= self._comment_column(start - 1) <= column:
            start = self._line_start(start - 1)
        return start

    def _range_with_blanks(
        self, start: int, end: int, floor: int, is_last: bool
    ) -> tuple[int, int]:
        """Return the range of a removed entry, including the blank lines on one side of it."""
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
        line_break = self.text.find("\n", position)
        return len(self.text) if line_break < 0 else line_break + 1

    def _leaf_end(self, position: int) -> int:
        """Return the end of a node without the blank lines that a block scalar's mark includes."""
        while self.text[position - 1].isspace():
            position -= 1
        return position

    def _comment_column(self, position: int) -> int:
        """Return the column of a comment that has a line of its own; -1 for any other line."""
        line = self.text[self._line_start(position) : self._line_end(position)]
        return len(line) - len(line.lstrip(" ")) if line.lstrip(" ").startswith("#") else -1
