"""Plain data to YAML text, in the one form that we write.

Block style with two blanks a level; counts, what is empty, and a case that has
nothing but counts in braces on one line. A text stands unquoted where every YAML
reader takes it for that text, else in double quotes, or in single quotes where
that saves escapes. Nothing is folded: a text is on one line, however long, and
so is a key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping as Map
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_graphbreak.baseline.document import (
    CAUSE_KEYS,
    ENTRY_KEYS,
    FILE_KEYS,
    OVERRIDE_KEYS,
    PLACE_KEYS,
    TEST_KEYS,
)
from pytest_graphbreak.model.budget import writable
from pytest_graphbreak.model.layers import LAYERS

INDENT = 2
LONGEST_COMPACT = 80
"""Characters of a case in braces, beside its key and its functions."""
COMMENTED = frozenset(("note", "ungated"))
"""What people write into an entry: it stands on a line of its own."""
LONGEST_KEY = 1000
"""Characters of a key in the form ``key: value``; YAML itself ends at 1,024."""

_PLAIN = re.compile(r"[A-Za-z_/](?:[!-9;-~]|:(?=[!-~])| (?=[!-\"$-~]))*")
_PLAIN_IN_FLOW = re.compile(r"[A-Za-z_/][\w./()+*=<>-]*(?: [A-Za-z_][\w./()+*=<>-]*)*", re.ASCII)
_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}


@dataclass(frozen=True, slots=True)
class Shape:
    """How a mapping or a list of the file is laid out.

    ``order`` is that of its keys, as far as they have one; ``inside`` the shapes
    of the values by key, ``each`` the shape of all others, or of list items;
    ``inline`` puts it on one line in braces, ``compact`` does where it is short;
    ``single`` puts a list of one item on one line in brackets.
    """

    order: tuple[str, ...] = ()
    inside: Map[str, Shape] = field(default_factory=dict)
    each: Shape | None = None
    inline: bool = False
    compact: bool = False
    single: bool = False

    def of(self, key: str) -> Shape:
        return self.inside.get(key) or self.each or _LEAF

    def rank(self, key: str) -> int:
        """Where a key belongs among its siblings; those without an order come last."""
        return self.order.index(key) if key in self.order else len(self.order)


_LEAF = Shape()
_COUNTS = Shape(order=LAYERS, inline=True)
_PLACES = Shape(each=Shape(order=PLACE_KEYS))
_CAUSES = Shape(each=Shape(order=CAUSE_KEYS, inline=True), single=True)
_FUNCTIONS = Shape(each=Shape(inline=True), inline=True)
_VALUES = {
    "graphs": _COUNTS,
    "recompiles": _COUNTS,
    "ops": _COUNTS,
    "functions": _FUNCTIONS,
    "causes": _CAUSES,
    "breaks": _PLACES,
    "eager": _PLACES,
}
_OVERRIDE = Shape(order=OVERRIDE_KEYS, inside=_VALUES)
_ENTRY_INSIDE = {**_VALUES, "overrides": Shape(each=_OVERRIDE)}
_ENTRY = Shape(order=ENTRY_KEYS, inside=_ENTRY_INSIDE)
_CASE = replace(_ENTRY, compact=True)
_TEST = Shape(order=(*ENTRY_KEYS, *TEST_KEYS), inside={**_ENTRY_INSIDE, "cases": Shape(each=_CASE)})
TESTS = Shape(each=_TEST)
FILE = Shape(order=FILE_KEYS, inside={"packages": Shape(inline=True), "tests": TESTS})


def lines(data: Map[str, Any], shape: Shape, indent: int) -> list[str]:
    """The lines of a mapping in block style, each key behind ``indent`` blanks; no line ends."""
    found: list[str] = []
    for name in sorted(data, key=shape.rank):
        found += item_lines(name, data[name], shape.of(name), indent)
    return found


def item_lines(name: str, value: Any, shape: Shape, indent: int) -> list[str]:
    """The lines of one key and its value."""
    blanks = " " * indent
    text = scalar(name)
    found = [f"{blanks}{text}:"]
    if len(text) > LONGEST_KEY:
        found = [f"{blanks}? {text}", f"{blanks}:"]
    if is_inline(value, shape):
        found[-1] += f" {inline(value, shape)}"
        return found
    return [*found, *value_lines(value, shape, indent + INDENT)]


def value_lines(value: Any, shape: Shape, indent: int) -> list[str]:
    """The lines below a key, of a value that is not inline."""
    if isinstance(value, dict):
        return lines(value, shape, indent)
    return [line for item in value for line in dash_lines(item, shape, indent)]


def dash_lines(item: Map[str, Any], shape: Shape, indent: int) -> list[str]:
    """The lines of a list's item, its dash behind ``indent`` blanks."""
    if is_inline(item, shape.of("")):
        return [" " * indent + "- " + inline(item, shape.of(""))]
    first, *rest = lines(item, shape.of(""), indent + 2)
    return [" " * indent + "- " + first.lstrip(" "), *rest]


def is_inline(value: Any, shape: Shape) -> bool:
    """Whether a value stands on the line of its key."""
    if not isinstance(value, dict | list) or not value or shape.inline:
        return True
    if isinstance(value, list) and shape.single and len(value) == 1:
        return True
    if not shape.compact or not isinstance(value, dict):
        return False
    flat = all(is_inline(value[name], shape.of(name)) for name in value)
    short = {name: item for name, item in value.items() if name != "functions"}
    return flat and not COMMENTED & value.keys() and len(inline(short, shape)) <= LONGEST_COMPACT


def inline(value: Any, shape: Shape, flow: bool = False) -> str:
    """A value on one line. ``flow``: inside of braces or brackets, where more is quoted."""
    if isinstance(value, dict):
        names = sorted(value, key=shape.rank)
        return "{" + ", ".join(flow_item(name, value[name], shape.of(name)) for name in names) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(inline(item, shape.of(""), True) for item in value) + "]"
    return str(value) if isinstance(value, int) else scalar(value, flow)


def flow_item(name: str, value: Any, shape: Shape) -> str:
    """A key and its value inside of braces."""
    text = scalar(name, flow=True)
    if len(text) > LONGEST_KEY:
        text = f"? {text} "
    return f"{text}: {inline(value, shape, flow=True)}"


def scalar(text: str, flow: bool = False) -> str:
    """A text as YAML: as it is, or in quotes."""
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
