"""Changes entries in the text of a baseline file; every other byte stays as it is.

An entry is a test of a file, or a case of a test. It is replaced as a whole, removed or added, and
these are the lines of ``test_b`` (offsets as in ``Region``)::

    tests:
      test_a:
        graphs: {dynamo: 1}
                                 floor: the end of the entry above
      # why test_b breaks        above: a comment directly above, not indented deeper than the key
      test_b:                    start
        graphs: {dynamo: 2}
        # further words          a comment directly below belongs to it if it is indented deeper
      test_c:                    end

An entry that is replaced keeps the comment above it; one that is removed loses it, and the blank
lines on one side. A new entry follows the last one, after a blank line if there is one before that.

``update`` makes an ``Editor`` for each file, asks for all edits, and takes the ``result``. Where
nodes begin and end is known from ``tree``.
"""

from __future__ import annotations

from collections.abc import Mapping as Map
from collections.abc import Sequence
from typing import Any, NamedTuple

from pytest_graphbreak.baseline.render import INDENT, inline, is_inline, item_lines, lines
from pytest_graphbreak.baseline.tree import Mapping, Scalar, end_of, start_of

Lines = list[str]
"""Lines without line ends, indented, as ``render`` makes them."""


class Region(NamedTuple):
    """Where an entry is in the text before any edit, as offsets of lines in ascending order."""

    floor: int
    above: int
    start: int
    end: int


class Editor:
    """Collects edits of one text, then applies them all.

    ``text`` has no byte order mark and is the text that the nodes were parsed from: all positions
    are offsets into it. An edit is a start, an end and the new text between them.
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
            if (new := changed[name]) is not None:
                self.replace(regions[name].start, regions[name].end, new)
            else:
                is_last = all(later in changed and changed[later] is None for later in names[at:])
                self.replace(*self._removed(regions[name], is_last), [])
        last = regions[names[-1]]
        is_spaced = last.floor < last.above and not self.text[last.floor : last.above].strip()
        for name in sorted(changed) if by_name else changed:
            new = changed[name]
            if name in regions or new is None:
                continue
            later = next((after for after in names if by_name and after > name), None)
            if later is not None:
                self.insert(regions[later].above, new)
            else:
                self.insert(last.end, ["", *new] if is_spaced else new)

    def set_mapping(
        self, root: Mapping, name: str, value: Map[str, Any], order: Sequence[str]
    ) -> None:
        """Set the value of a key of a mapping in block style; ``order`` has all keys."""
        if name not in root.items:
            before = [key for key in order[: order.index(name)] if key in root.items]
            self.insert(self.regions(root)[before[-1]].end, item_lines(name, value, root.column))
            return
        key, node = root.items[name]
        assert isinstance(node, Mapping)
        if not node.flow:
            region = self.regions(root)[name]
            self.replace(region.start, region.end, item_lines(name, value, root.column))
        elif is_inline(value):
            self.edits.append((node.start, node.end, inline(value)))
        else:
            self.edits.append((self._colon_end(key), node.end, ""))
            self.insert(self._line_end(node.end), lines(value, root.column + INDENT))

    def set_text(self, root: Mapping, name: str, text: str) -> None:
        """Set the text of a key that is there."""
        key, node = root.items[name]
        self.edits.append((self._colon_end(key), end_of(node), f" {inline(text)}"))

    def _colon_end(self, key: Scalar) -> int:
        """Return where the colon after a key ends; there may be spaces before it."""
        return self.text.index(":", end_of(key)) + 1

    def has_lines(self, node: Mapping) -> bool:
        """Return whether each key of a mapping begins a line; a long one does after ``?``."""
        starts = (start_of(key) for key, _ in node.items.values())
        return not node.flow and all(
            self.text[self._line_start(at) : at].strip() in ("", "?") for at in starts
        )

    def regions(self, node: Mapping) -> dict[str, Region]:
        """Return the region of each entry of a mapping in block style, in the order of the file."""
        regions = {}
        floor = 0
        for name, (key, value) in node.items.items():
            start = self._line_start(start_of(key))
            end = self._line_end(self._leaf_end(end_of(value)))
            while self._comment_column(end) > node.column:
                end = self._line_end(end)
            regions[name] = Region(floor, self._above(start, node.column, floor), start, end)
            floor = end
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

    def _removed(self, region: Region, is_last: bool) -> tuple[int, int]:
        """Return the range of a removed entry: between blank lines it takes those below it.

        The last entry takes those above it, if none are below.
        """
        floor, start, _, end = region
        above, below = start, end
        while above > floor and self._is_blank(above - 1):
            above = self._line_start(above - 1)
        while below < len(self.text) and self._is_blank(below):
            below = self._line_end(below)
        if above < start and below > end:
            return start, below
        return (above, end) if is_last else (start, end)

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
