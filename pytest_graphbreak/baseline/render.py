"""Renders an entry as YAML text, in the one form that this package writes.

In two steps: ``test``, ``case`` and ``entry`` make plain data of an entry, in which a ``Braces`` is
to stand on one line; ``lines`` and ``item_lines`` make text of that.

Block style indented by two blanks; counts, empty values, and a case that has nothing but counts are
in braces on one line, and so is a cause that fits into 100 columns. A text is unquoted if every
YAML reader takes it for that text, else in double quotes, or in single quotes if that saves
escapes. Nothing is folded: a text or a key is on one line, however long; a text of several lines is
a block.
"""

from __future__ import annotations

import re
from collections.abc import Mapping as Map
from functools import cache, lru_cache
from typing import Any

from msgspec import Struct, structs

from pytest_graphbreak.baseline import form
from pytest_graphbreak.baseline.form import shorten
from pytest_graphbreak.baseline.model import Document, Entries, Entry, Override
from pytest_graphbreak.model.budget import KEYS, BaselinePlace, Cause, Values, writable
from pytest_graphbreak.model.layers import LAYERS
from pytest_graphbreak.model.versions import COMPILERS, Versions

INDENT = 2
LONGEST_COMPACT = 80
"""Maximum number of characters of a case in braces, without its key."""
LONGEST_CAUSE = 100
"""Maximum number of columns of a line with a cause in braces."""
LONGEST_KEY = 1000
"""Maximum number of characters of a key in the form ``key: value``; YAML's own limit is 1,024."""

# Text that needs no quotes, after ``key: `` (``a.py::f``, ``x = torch.ones(2)``) and inside braces,
# where ``:``, ``,`` and brackets need them (``torch.ones(2)``).
_PLAIN = re.compile(r"[A-Za-z_/](?:[!-9;-~]|:(?=[!-~])| (?=[!-\"$-~]))*")
_PLAIN_IN_FLOW = re.compile(r"[A-Za-z_/][\w./()+*=<>-]*(?: [A-Za-z_][\w./()+*=<>-]*)*", re.ASCII)
_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
"""Words that are no text for YAML 1.1, or for some readers, unless they are quoted."""
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}


class Braces(dict[str, Any]):
    """A mapping that is written on one line: ``graphs: {dynamo: 1}``; a dict is in block style."""


# entries as plain data, with keys in the order in which they are written


def file(top: Document) -> dict[str, Any]:
    """Return a file with all of its tests, as plain data."""
    data = {"version": form.VERSION, "profile": top.profile, **top.versions}
    if top.packages:
        data["packages"] = packages(top.packages)
    tests = {name: test(entries, top) for name, entries in top.tests.items()}
    return {key: data[key] for key in form.keys(form.File) if key in data} | {"tests": tests}


def packages(versions: Map[str, str]) -> Braces:
    """Return the versions of packages, sorted by name."""
    return Braces(sorted(versions.items()))


def test(entries: Entries, top: Document) -> dict[str, Any]:
    """Return a test, with its cases if it has any; ``top`` is its file."""
    by_case = entries.entries
    if None in by_case:
        return entry(by_case[None], top)
    cases = {str(name): case(by_case[name], top) for name in sorted(by_case, key=str)}
    return {**_remarks(entries), "cases": cases}


def case(item: Entry, top: Document) -> dict[str, Any]:
    """Return a case, on one line if it has nothing but counts and is short."""
    data = entry(item, top)
    fits = not _remarks(item) and all(map(is_inline, data.values()))
    return Braces(data) if fits and len(inline(data)) <= LONGEST_COMPACT else data


def entry(item: Entry, top: Document) -> dict[str, Any]:
    """Return the keys of an entry, without what its file states as well."""
    data: dict[str, Any] = _remarks(item)
    if item.profile != top.profile:
        data["profile"] = item.profile
    data |= _versions(item.versions, top)
    if item.values is not None:
        data |= _values(item.values) or {"graphs": Braces()}  # recorded, and without any graph
    if item.overrides:
        data["overrides"] = {
            profile: _override(override, top) for profile, override in item.overrides.items()
        }
    return data


def _remarks(item: Entry | Entries) -> dict[str, Any]:
    remarks = {key: getattr(item, key) for key in form.REMARKS}
    return {key: text for key, text in remarks.items() if text is not None}


def _versions(versions: Versions, top: Document) -> dict[str, str]:
    return {
        name: versions[name]
        for name in COMPILERS
        if name in versions and versions[name] != top.versions.get(name)
    }


def _override(override: Override, top: Document) -> dict[str, Any]:
    values = _values(override.values, override.named)
    return {**_versions(override.versions, top), **values} or {"graphs": Braces()}


def _values(values: Values, named: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Return the keys that are not empty, and those ``named``, which hide plain values if empty."""
    written = shorten({key: getattr(values, key) for key in KEYS})
    return {key: _as_data(written[key]) for key in KEYS if written[key] or key in named}


def _as_data(value: Any) -> Any:
    """Return a value as plain data: a place in block style, counts and causes on one line."""
    if isinstance(value, BaselinePlace):
        return _keys_of(value, form.PlaceKeys)
    if isinstance(value, Cause):
        return Braces(_keys_of(value, form.CauseKeys))
    if isinstance(value, tuple):
        return [_as_data(item) for item in value]
    if isinstance(value, Map) and value.keys() <= {*LAYERS}:
        return Braces({layer: value[layer] for layer in LAYERS if layer in value})
    if isinstance(value, Map):
        return Braces({name: _as_data(item) for name, item in value.items()})
    return value


def _keys_of(item: BaselinePlace | Cause, cls: type[Struct]) -> dict[str, Any]:
    """Return the keys of a place or a cause, without those that equal their default."""
    data = {}
    for name, omitted in _omitted(cls).items():
        value = getattr(item, name)
        if value not in omitted:
            data[name] = value
    return data


@cache
def _omitted(cls: type[Struct]) -> dict[str, tuple[Any, ...]]:
    """Return for each key of a form the values with which it is left out."""
    fields = structs.fields(cls)
    return {field.name: () if field.required else (None, field.default) for field in fields}


# plain data as text


def lines(data: Map[str, Any], indent: int) -> list[str]:
    """Return the lines of a mapping in block style, indented, without line ends."""
    return [line for name in data for line in item_lines(name, data[name], indent)]


def item_lines(name: str, value: Any, indent: int) -> list[str]:
    """Return the lines of one key and its value."""
    blanks = " " * indent
    text = scalar(name)
    head = [f"{blanks}{text}:"]
    if len(text) > LONGEST_KEY:
        head = [f"{blanks}? {text}", f"{blanks}:"]
    if isinstance(value, str) and _is_block(value):
        head[-1] += " |" if value.endswith("\n") else " |-"
        return head + [f"{blanks}  {line}".rstrip() for line in value.splitlines()]
    if is_inline(value) and _fits(value, len(head[-1]) + 1):
        head[-1] += f" {inline(value)}"
        return head
    if isinstance(value, dict):
        return head + lines(value, indent + INDENT)
    return head + [line for item in value for line in _dash_lines(item, indent + INDENT)]


def _is_block(text: str) -> bool:
    """Return whether a text of several lines can be written as it is, in a block."""
    rows = text.removesuffix("\n").split("\n")
    if len(rows) == 1 or not rows[0] or not rows[-1] or text.startswith(" "):
        return False  # blank rows are kept only between others
    return all(row.isprintable() and row == row.rstrip() for row in rows)


def _dash_lines(item: Any, indent: int) -> list[str]:
    """Return the lines of a list item, with the dash indented by ``indent`` blanks."""
    if is_inline(item) and _fits(item, indent + 2):
        return [" " * indent + "- " + inline(item)]
    first, *others = lines(item, indent + 2)
    return [" " * indent + "- " + first.lstrip(" "), *others]


def _fits(value: Any, column: int) -> bool:
    """Return whether a cause, or a list of one, is short enough for one line from ``column`` on."""
    first = value[0] if isinstance(value, list) and value else value
    is_cause = isinstance(first, Braces) and "cause" in first
    return not is_cause or column + len(inline(value)) <= LONGEST_CAUSE


def is_inline(value: Any) -> bool:
    """Return whether a value is written on the line of its key.

    This includes a list of one text, or of one item in braces.
    """
    if isinstance(value, list) and len(value) == 1:
        return isinstance(value[0], Braces | str)
    return not isinstance(value, dict | list) or not value or isinstance(value, Braces)


def inline(value: Any, *, flow: bool = False) -> str:
    """Return a value on one line. ``flow`` means inside braces or brackets: more is quoted."""
    if isinstance(value, dict):
        return "{" + ", ".join(_flow_item(name, item) for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(inline(item, flow=True) for item in value) + "]"
    return str(value) if isinstance(value, int) else scalar(value, flow)


def _flow_item(name: str, value: Any) -> str:
    """Return a key and its value inside braces."""
    text = scalar(name, flow=True)
    if len(text) > LONGEST_KEY:
        text = f"? {text} "
    return f"{text}: {inline(value, flow=True)}"


@lru_cache(10_000)  # a file repeats the same few keys and places
def scalar(text: str, flow: bool = False) -> str:
    """Return a text as YAML: as it is, or in quotes."""
    text = writable(text)
    pattern = _PLAIN_IN_FLOW if flow else _PLAIN
    if pattern.fullmatch(text) and text.lower() not in _WORDS:
        return text
    if text.isprintable() and ('"' in text or "\\" in text):
        return "'" + text.replace("'", "''") + "'"
    return '"' + "".join(_escape(character) for character in text) + '"'


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02X}"
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"
