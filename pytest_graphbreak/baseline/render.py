"""Renders an entry as YAML text, in the one form that this package writes.

Block style indented by two blanks; counts, empty values, and a case that has nothing but counts are
in braces on one line. A text is unquoted if every YAML reader takes it for that text, else in
double quotes, or in single quotes if that saves escapes. Nothing is folded: a text or a key is on
one line, however long; a text of several lines is a block.
"""

from __future__ import annotations

import re
from collections.abc import Mapping as Map
from collections.abc import Sequence
from typing import Any

from msgspec import Struct, structs

from pytest_graphbreak.baseline import form
from pytest_graphbreak.baseline.follows import shortened
from pytest_graphbreak.baseline.model import Document, Entries, Entry, Override
from pytest_graphbreak.baseline.tree import Mapping, end_of, start_of
from pytest_graphbreak.model.budget import BaselinePlace, Cause, Values, writable
from pytest_graphbreak.model.layer import Versions
from pytest_graphbreak.model.layers import COMPILERS, LAYERS

INDENT = 2
LONGEST_COMPACT = 80
"""Maximum number of characters of a case in braces, without its key."""
LONGEST_KEY = 1000
"""Maximum number of characters of a key in the form ``key: value``; YAML's own limit is 1,024."""

_PLAIN = re.compile(r"[A-Za-z_/](?:[!-9;-~]|:(?=[!-~])| (?=[!-\"$-~]))*")
_PLAIN_IN_FLOW = re.compile(r"[A-Za-z_/][\w./()+*=<>-]*(?: [A-Za-z_][\w./()+*=<>-]*)*", re.ASCII)
_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}


class Braces(dict[str, Any]):
    """A mapping that is written on one line."""


# entries as plain data, with keys in the order in which they are written


def file(top: Document) -> dict[str, Any]:
    """Return a file with all of its tests, as plain data."""
    found = {"version": form.VERSION, "profile": top.profile, **top.versions}
    if top.packages:
        found["packages"] = packages(top.packages)
    tests = {name: test(known, top) for name, known in top.tests.items()}
    return {key: found[key] for key in form.keys(form.File) if key in found} | {"tests": tests}


def packages(versions: Map[str, str]) -> Braces:
    """Return the versions of packages, sorted by name."""
    return Braces(sorted(versions.items()))


def test(known: Entries, top: Document) -> dict[str, Any]:
    """Return a test, with its cases if it has any; ``top`` is its file."""
    if None in known.entries:
        return entry(known.entries[None], top)
    cases = {str(name): case(known.entries[name], top) for name in sorted(known.entries, key=str)}
    return {**_remarks(known), "cases": cases}


def case(item: Entry, top: Document) -> dict[str, Any]:
    """Return a case, on one line if it has nothing but counts and is short."""
    found = entry(item, top)
    fits = not _remarks(item) and all(map(is_inline, found.values()))
    return Braces(found) if fits and len(inline(found)) <= LONGEST_COMPACT else found


def entry(item: Entry, top: Document) -> dict[str, Any]:
    """Return the keys of an entry, without what its file states as well."""
    found: dict[str, Any] = _remarks(item)
    if item.profile != top.profile:
        found["profile"] = item.profile
    found |= _versions(item.versions, top)
    values = _values(item.values) if item.values is not None else {}
    if item.values is not None and not values:
        values["graphs"] = Braces()  # recorded, and without any graph
    found |= values
    if item.overrides:
        found["overrides"] = {name: _override(own, top) for name, own in item.overrides.items()}
    return found


def _remarks(item: Entry | Entries) -> dict[str, Any]:
    return {key: said for key in form.REMARKS if (said := getattr(item, key)) is not None}


def _versions(own: Versions, top: Document) -> dict[str, str]:
    stated = {name: own[name] for name in COMPILERS if name in own}
    return {name: at for name, at in stated.items() if top.versions.get(name) != at}


def _override(own: Override, top: Document) -> dict[str, Any]:
    found = {**_versions(own.versions, top), **_values(own.values, own.named)}
    return found or {"graphs": Braces()}


def _values(values: Values, named: frozenset[str] = frozenset()) -> dict[str, Any]:
    found = shortened({key: getattr(values, key) for key in form.VALUES})
    found |= {key: _by_file(found[key]) for key in form.BY_FILE}
    return {key: _plain(value) for key, value in found.items() if value or key in named}


def _plain(value: Any) -> Any:
    if isinstance(value, BaselinePlace):
        return _item(value, form.PlaceKeys)
    if isinstance(value, Cause):
        return Braces(_item(value, form.CauseKeys))
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Map) and value.keys() <= {*LAYERS}:
        return Braces({layer: value[layer] for layer in LAYERS if layer in value})
    return value


def _item(value: BaselinePlace | Cause, cls: type[Struct]) -> dict[str, Any]:
    """Return the keys of a place or a cause, without those that equal their default."""
    found = {}
    for field in structs.fields(cls):
        said = getattr(value, field.name)
        if field.required or said not in (None, field.default):
            found[field.name] = said
    return found


def _by_file(functions: Map[str, int]) -> Braces:
    found = Braces()
    for name, count in functions.items():
        at, _, function = name.partition("::")
        found.setdefault(at, Braces())[function] = count
    return found


# plain data as text


def lines(data: Map[str, Any], indent: int) -> list[str]:
    """Return the lines of a mapping in block style, indented, without line ends."""
    return [line for name in data for line in item_lines(name, data[name], indent)]


def item_lines(name: str, value: Any, indent: int) -> list[str]:
    """Return the lines of one key and its value."""
    blanks = " " * indent
    text = scalar(name)
    found = [f"{blanks}{text}:"]
    if len(text) > LONGEST_KEY:
        found = [f"{blanks}? {text}", f"{blanks}:"]
    if isinstance(value, str) and _is_block(value):
        found[-1] += " |" if value.endswith("\n") else " |-"
        return found + [f"{blanks}  {line}".rstrip() for line in value.splitlines()]
    if is_inline(value):
        found[-1] += f" {inline(value)}"
        return found
    if isinstance(value, dict):
        return found + lines(value, indent + INDENT)
    return found + [line for item in value for line in _dash_lines(item, indent + INDENT)]


def _is_block(text: str) -> bool:
    """Return whether a text of several lines can be written as it is, in a block."""
    rows = text.removesuffix("\n").split("\n")
    return (
        len(rows) > 1
        and all(
            row.isprintable() and row == row.rstrip() and (row or 0 < at < len(rows) - 1)
            for at, row in enumerate(rows)
        )
        and not text.startswith(" ")
    )


def _dash_lines(item: Any, indent: int) -> list[str]:
    """Return the lines of a list item, with the dash indented by ``indent`` blanks."""
    if is_inline(item):
        return [" " * indent + "- " + inline(item)]
    first, *rest = lines(item, indent + 2)
    return [" " * indent + "- " + first.lstrip(" "), *rest]


def is_inline(value: Any) -> bool:
    """Return whether a value is written on the line of its key.

    This includes a list of one text, or of one item in braces.
    """
    if isinstance(value, list) and len(value) == 1:
        return isinstance(value[0], Braces | str)
    return not isinstance(value, dict | list) or not value or isinstance(value, Braces)


def inline(value: Any, flow: bool = False) -> str:
    """Return a value on one line. ``flow`` means inside braces or brackets: more is quoted."""
    if isinstance(value, dict):
        return "{" + ", ".join(_flow_item(name, item) for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(inline(item, True) for item in value) + "]"
    return str(value) if isinstance(value, int) else scalar(value, flow)


def _flow_item(name: str, value: Any) -> str:
    """Return a key and its value inside braces."""
    text = scalar(name, flow=True)
    if len(text) > LONGEST_KEY:
        text = f"? {text} "
    return f"{text}: {inline(value, flow=True)}"


def scalar(text: str, flow: bool = False) -> str:
    """Return a text as YAML: as it is, or in quotes."""
    text = writable(text)
    pattern = _PLAIN_IN_FLOW if flow else _PLAIN
    if pattern.fullmatch(text) and text.lower() not in _WORDS:
        return text
    if text.isprintable() and ('"' in text or "\\" in text):
        return "'" + text.replace("'", "''") + "'"
    return '"' + "".join(_escaped(character) for character in text) + '"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02X}"
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


# Changing entries in the text of a baseline file; every other byte stays as it is.
#
# An entry is replaced as a whole, removed or added; entries are the tests of a file, and the cases
# of a test. An entry begins with the line of its key and ends with its last line, or with the
# comment lines directly below that are indented deeper than its key. When an entry is removed, so
# are the comment lines directly above it that are not indented deeper, and the blank lines on one
# side. A new entry follows the last one, after a blank line if there is one before that one.

Lines = list[str]


class Editor:
    """Collects edits of one text, then applies them all.

    ``text`` has no byte order mark and is the text that the nodes were parsed from.
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
                is_last = all(changed.get(later, "") is None for later in names[at:])
                start, end = self._with_blanks(start, end, floor, is_last)
            self.replace(start, end, new or [])
        last = regions[names[-1]]
        above = regions[names[-2]][1] if len(names) > 1 else last[0]
        between = self.text[above : self._above(last[0], node.column, above)]
        spaced = bool(between) and not between.strip()
        for name in sorted(changed.keys() - regions.keys()) if by_name else changed:
            new = changed[name]
            later = next((other for other in names if by_name and other > name), None)
            if name in regions or new is None:
                continue
            if later is not None:
                self.insert(self._before(regions, names, later, node.column), new)
            else:
                self.insert(last[1], ["", *new] if spaced else new)

    def _before(
        self, regions: Map[str, tuple[int, int]], names: Sequence[str], name: str, column: int
    ) -> int:
        """Return the start of an entry, with the comment lines above that belong to it."""
        at = names.index(name)
        return self._above(regions[name][0], column, regions[names[at - 1]][1] if at else 0)

    def value(self, root: Mapping, name: str, value: Map[str, Any], order: Sequence[str]) -> None:
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

    def has_lines(self, node: Mapping) -> bool:
        """Return whether each key of a mapping begins a line."""
        starts = (start_of(key) for key, _ in node.items.values())
        return not node.flow and all(
            self.text[self._line_start(at) : at].strip() in ("", "?") for at in starts
        )

    def regions(self, node: Mapping) -> dict[str, tuple[int, int]]:
        """Return the range of lines of each entry of a mapping in block style: start and end."""
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
        """Return where the comment lines begin that belong to the entry below them."""
        while start > floor and 0 <= self._comment_column(start - 1) <= column:
            start = self._line_start(start - 1)
        return start

    def _with_blanks(self, start: int, end: int, floor: int, is_last: bool) -> tuple[int, int]:
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
        found = self.text.find("\n", position)
        return len(self.text) if found < 0 else found + 1

    def _leaf_end(self, position: int) -> int:
        """Return the end of a node without the blank lines that a block scalar's mark includes."""
        while self.text[position - 1].isspace():
            position -= 1
        return position

    def _comment_column(self, position: int) -> int:
        """Return the column of a comment that has a line of its own; -1 for any other line."""
        line = self.text[self._line_start(position) : self._line_end(position)]
        return len(line) - len(line.lstrip(" ")) if line.lstrip(" ").startswith("#") else -1
