"""Changing a baseline file's text at the marks of its nodes; the rest stays as it is.

An edit replaces the smallest thing that differs: a number, a text, a key with
its value, an item of a list. What an item owns goes with it when it is removed:

- the comment lines directly above it, not indented deeper than its key;
- its own lines;
- the comment lines directly below it that are indented deeper than its key.

A test or case that goes takes the blank lines on one side along. A new test or
case stands behind the last one, and behind a blank line if that one does.
"""

from __future__ import annotations

from collections.abc import Mapping as Map
from typing import Any, Final

from pytest_graphbreak.baseline import render
from pytest_graphbreak.baseline.document import CAUSE_KEYS, PLACE_KEYS
from pytest_graphbreak.baseline.render import Shape
from pytest_graphbreak.baseline.tree import Mapping, Node, Scalar, Sequence, end_of, start_of
from pytest_graphbreak.model.budget import place_key

GONE: Final = object()
"""In place of a new value: the key is to be removed."""


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
            start = max(start, done)
            parts += (self.text[done:start], new)
            done = max(done, end)
        parts.append(self.text[done:])
        text = "".join(parts)
        cut = any(start < end == len(self.text) for start, end, _ in self.edits)
        return text.removesuffix(self.newline) if self.open_end and not cut else text

    # mappings

    def mapping(self, node: Mapping, changed: Map[str, Any], shape: Shape) -> None:
        """Bring some keys of a mapping to new values (``GONE`` to none); at least one key stays."""
        for name, value in changed.items():
            if name in node.items and value is not GONE:
                self.value(node.items[name], value, shape.of(name), node)
        removed = {name for name in node.items if changed.get(name) is GONE}
        added = {
            name: value
            for name, value in changed.items()
            if name not in node.items and value is not GONE
        }
        if node.flow:
            self._flow_removed([name in removed for name in node.items], _spans(node))
            self._flow_added(node, added, removed, shape)
        else:
            self._block_removed(node, [name in removed for name in node.items], shape.order == ())
            self._block_added(node, added, removed, shape)

    def value(self, item: tuple[Scalar, Node], new: Any, shape: Shape, parent: Mapping) -> None:
        """Bring the value of one key to ``new``, changing as little as can be."""
        name, old = item
        if plain(old) == new:
            return
        if self._changes_style(item, new, shape, parent):
            self._replaced(name, old, new, shape, parent.column)
        elif isinstance(old, Mapping) and isinstance(new, dict) and new.keys() & old.items.keys():
            self.mapping(old, {key: new.get(key, GONE) for key in {**old.items, **new}}, shape)
        elif isinstance(old, Sequence) and isinstance(new, list) and _surviving(old, new):
            self._sequence(old, new, shape)
        elif parent.flow:
            self.replace(start_of(old), end_of(old), render.inline(new, shape, flow=True))
        else:
            self._replaced(name, old, new, shape, parent.column)

    def _changes_style(
        self, item: tuple[Scalar, Node], new: Any, shape: Shape, parent: Mapping
    ) -> bool:
        """Whether a case goes to one line, or to several; one with comments in it stays."""
        name, old = item
        if isinstance(old, Sequence):
            return old.flow and shape.single and not parent.flow and len(new) > 1
        if not shape.compact or parent.flow or not isinstance(old, Mapping):
            return False
        if old.flow == render.is_inline(new, shape):
            return False
        if old.flow:  # one that is in braces although it has more stays so
            ours = render.is_inline(plain(old), shape)
            return ours and "#" not in self.text[old.start : old.end]
        colon = self._skip(end_of(name)) + 1
        if "\n" not in self.text[colon : old.start]:
            return False  # below a key with a question mark it may begin beside the colon
        return "#" not in self.text[colon : self._line_end(self._leaf_end(old.end))]

    def _replaced(self, name: Scalar, old: Node, new: Any, shape: Shape, column: int) -> None:
        """Another value for a key in block style."""
        colon = self._skip(end_of(name)) + 1
        block = not isinstance(old, Scalar) and not old.flow
        start, end = start_of(old), self._leaf_end(end_of(old))
        lines = []
        if render.is_inline(new, shape):
            text = render.inline(new, shape)
            if block:
                self.insert(colon, " " + text)
            else:
                self.replace(start, end, text)
        else:
            lines = render.value_lines(new, shape, column + render.INDENT)
            if not block:
                self.replace(colon, end, "")
        below = self._line_end(colon) if block else self._line_end(end)
        if block:
            self.replace(below, self._line_end(end), "")
        self._insert_lines(below, lines)

    def _block_removed(self, node: Mapping | Sequence, removed: list[bool], spaced: bool) -> None:
        if not any(removed):
            return
        starts, regions = self._layout(node)
        index = 0
        while index < len(removed):
            if not removed[index]:
                index += 1
                continue
            # Neighbours with only blank lines between them go as one.
            last = index
            while (
                last + 1 < len(removed)
                and removed[last + 1]
                and not self.text[regions[last][1] : regions[last + 1][0]].strip()
            ):
                last += 1
            start, end = regions[index][0], regions[last][1]
            if last + 1 < len(removed) and self._is_compact(starts[index]):
                # The first key beside a dash: the next one takes its place.
                start, end = starts[index], starts[last + 1]
            elif spaced:
                start, end = self._with_blanks(start, end, last + 1 == len(removed))
            self.replace(start, end, "")
            index = last + 1

    def _with_blanks(self, start: int, end: int, last: bool) -> tuple[int, int]:
        """The region of an entry that goes, and the blank lines on one side of it."""
        above, below = start, end
        while above > 0 and not self.text[self._line_start(above - 1) : above].strip():
            above = self._line_start(above - 1)
        while below < len(self.text) and not self.text[below : self._line_end(below)].strip():
            below = self._line_end(below)
        if above == start:
            return start, end
        if below > end:
            return start, below
        return (above, end) if last else (start, end)

    def _block_added(
        self, node: Mapping, added: Map[str, Any], removed: set[str], shape: Shape
    ) -> None:
        if not added:
            return
        starts, regions = self._layout(node)
        names = list(node.items)
        stay = [index for index, name in enumerate(names) if name not in removed]
        blank = False
        if not shape.order and len(names) > 1:
            between = self.text[regions[-2][1] : regions[-1][0]]
            blank = bool(between) and not between.strip()
        for name in sorted(added, key=shape.rank):
            lines = render.item_lines(name, added[name], shape.of(name), node.column)
            neighbour, behind = _neighbour(name, names, stay, shape)
            if behind:
                self._insert_lines(regions[neighbour][1], ["", *lines] if blank else lines)
            elif self._is_compact(starts[0]) and stay[0] == neighbour:
                # Beside the dash, with what stays below it.
                body = self.newline.join([lines[0].lstrip(" "), *lines[1:], " " * node.column])
                self.insert(starts[neighbour], body)
            else:
                self._insert_lines(regions[neighbour][0], lines)

    # lists of places

    def _sequence(self, node: Sequence, new: list[Any], shape: Shape) -> None:
        by_place = {_place(item): item for item in new}
        removed = []
        for item in node.items:
            raw = plain(item)
            wanted = by_place.pop(_place(raw), None)
            removed.append(wanted is None)
            if wanted is not None and wanted != raw:
                assert isinstance(item, Mapping)
                changed = {
                    key: wanted.get(key, GONE)
                    for key in (*CAUSE_KEYS[:2], *PLACE_KEYS)
                    if key in {**raw, **wanted}
                }
                self.mapping(item, changed, shape.of(""))
        if node.flow:
            spans = [(start_of(item), end_of(item)) for item in node.items]
            self._flow_removed(removed, spans)
            last = max(index for index, gone in enumerate(removed) if not gone)
            for item in by_place.values():
                text = render.inline(item, shape.of(""), flow=True)
                self.insert(spans[last][1], f", {text}")
        else:
            self._block_removed(node, removed, spaced=False)
            last = max(index for index, gone in enumerate(removed) if not gone)
            below = self._layout(node)[1][last][1]
            for item in by_place.values():
                self._insert_lines(below, render.dash_lines(item, shape, node.column))

    # flow style

    def _flow_removed(self, removed: list[bool], spans: list[tuple[int, int]]) -> None:
        """Take items out of braces or brackets, each with one comma; at least one stays."""
        if not any(removed):
            return
        last = max(index for index, gone in enumerate(removed) if not gone)
        for index, gone in enumerate(removed):
            if gone and index < last:
                end = self._skip(spans[index][1]) + 1  # behind its comma
                while self.text[end] in " \t":
                    end += 1
                self.replace(spans[index][0], end, "")
            elif gone:
                self.replace(self._skip(spans[index - 1][1]), spans[index][1], "")

    def _flow_added(
        self, node: Mapping, added: Map[str, Any], removed: set[str], shape: Shape
    ) -> None:
        names, spans = list(node.items), _spans(node)
        stay = [index for index, name in enumerate(names) if name not in removed]
        for name in sorted(added, key=shape.rank):
            text = render.flow_item(name, added[name], shape.of(name))
            neighbour, behind = _neighbour(name, names, stay, shape)
            if behind:
                self.insert(spans[neighbour][1], f", {text}")
            else:
                self.insert(spans[neighbour][0], f"{text}, ")

    # places in the text

    def replace(self, start: int, end: int, new: str) -> None:
        self.edits.append((start, end, new))

    def insert(self, position: int, new: str) -> None:
        self.edits.append((position, position, new))

    def _insert_lines(self, position: int, lines: list[str]) -> None:
        if lines:
            self.insert(position, "".join(line + self.newline for line in lines))

    def _line_start(self, position: int) -> int:
        return self.text.rfind("\n", 0, position) + 1

    def _line_end(self, position: int) -> int:
        """Behind the line break of the line that ``position`` is on."""
        found = self.text.find("\n", position)
        return len(self.text) if found < 0 else found + 1

    def _leaf_end(self, position: int) -> int:
        """The end of a node without the blank lines that a block scalar's mark includes."""
        while self.text[position - 1].isspace():
            position -= 1
        return position

    def _skip(self, position: int) -> int:
        """The next character that is neither blank nor comment."""
        while position < len(self.text):
            if self.text[position] == "#":
                position = self._line_end(position)
            elif self.text[position].isspace():
                position += 1
            else:
                break
        return position

    def _is_compact(self, start: int) -> bool:
        """Whether what begins here shares its line with the dash of a list around it."""
        return bool(self.text[self._line_start(start) : start].strip())

    def _layout(self, node: Mapping | Sequence) -> tuple[list[int], list[tuple[int, int]]]:
        """Of each item of a block collection: where it begins, and the lines that it owns.

        It begins with its dash or question mark, where it has one.
        """
        starts: list[int] = []
        regions: list[tuple[int, int]] = []
        start, floor = node.start, 0
        for _, end in _spans(node):
            if starts:
                start = self._skip(floor)
            first = self._line_start(start)
            while first > floor and self._comment_column(first - 1) <= node.column:
                first = self._line_start(first - 1)
            last = self._line_end(self._leaf_end(end))
            while node.column < self._comment_column(last) < _NEVER:
                last = self._line_end(last)
            starts.append(start)
            regions.append((first, last))
            floor = last
        return starts, regions

    def _comment_column(self, position: int) -> int:
        """How far the comment is indented that a line consists of; ``_NEVER`` if it does not."""
        start = position = self._line_start(position)
        while position < len(self.text) and self.text[position] == " ":
            position += 1
        is_comment = position < len(self.text) and self.text[position] == "#"
        return position - start if is_comment else _NEVER


_NEVER: Final = 1 << 30


def plain(node: Node) -> Any:
    """A node of a checked file as plain data: dict, list, int or str."""
    if isinstance(node, Scalar):
        # Unquoted digits are a count: the reader let nothing else through.
        return int(node.value) if not node.style and node.value.isdecimal() else node.value
    if isinstance(node, Mapping):
        return {name: plain(value) for name, (_, value) in node.items.items()}
    return [plain(item) for item in node.items]


def _neighbour(name: str, names: list[str], stay: list[int], shape: Shape) -> tuple[int, bool]:
    """Beside which of the keys that stay a new one goes, and whether behind or before it.

    The one that is nearest in the order of the shape, in doubt the one before.
    """
    if not shape.order:
        return (stay[-1], True) if stay else (0, False)
    rank = shape.rank(name)
    before = [index for index in stay if shape.rank(names[index]) <= rank]
    after = [index for index in stay if shape.rank(names[index]) > rank]
    last = max(before, key=lambda index: (shape.rank(names[index]), index), default=None)
    first = min(after, key=lambda index: (shape.rank(names[index]), index), default=None)
    if last is None:
        return (0 if first is None else first), False
    if first is not None and shape.rank(names[first]) - rank < rank - shape.rank(names[last]):
        return first, False
    return last, True


def _spans(node: Mapping | Sequence) -> list[tuple[int, int]]:
    if isinstance(node, Mapping):
        return [(start_of(key), end_of(value)) for key, value in node.items.values()]
    return [(start_of(item), end_of(item)) for item in node.items]


def _place(raw: Map[str, Any]) -> tuple[str, ...]:
    place = place_key(raw.get("where", ""), raw.get("code", ""))
    return (raw.get("layer", ""), raw.get("cause", ""), *place)


def _surviving(old: Sequence, new: list[Any]) -> bool:
    """Whether any place of the old list is in the new one."""
    places = {_place(item) for item in new}
    return any(_place(plain(item)) in places for item in old.items)
