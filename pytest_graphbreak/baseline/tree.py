"""Parses YAML text into a tree with positions, allowing only a strict and safe subset.

Only the parser of PyYAML is used (the C one if available); it produces events and never objects.
Nesting is counted while the events arrive, since deep input would use up the stack in libyaml's
composer. Not allowed: tags, anchors, aliases, a second document, keys that are not text, the same
key twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import yaml
from msgspec import Struct
from yaml.events import (
    AliasEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from pytest_graphbreak.baseline.model import BaselineError
from pytest_graphbreak.text.files import without_collector

DEEPEST = 16
"""Maximum levels of nesting; a baseline has ten."""

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_RESOLVERS = yaml.resolver.Resolver.yaml_implicit_resolvers
"""What unquoted text means in YAML 1.1: by its first character, pairs of a tag and a pattern."""
_CONFLICT = re.compile(r"^(?:<{7}|\|{7}|={7}|>{7})(?=[ \r\n]|\Z)", re.MULTILINE)
"""A line that git leaves in a conflict: ``<<<<<<< HEAD``, ``=======``, ``>>>>>>> branch``."""
_UNREADABLE = re.compile(
    "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
"""A character that YAML does not allow, such as the bell."""

Scalar = ScalarEvent
"""A text, as the parser's own event: ``value``, ``style`` (None or empty: unquoted), two marks."""


class Mapping(Struct):
    """Keys and values in order.

    ``start`` and ``end`` are offsets into the text in characters, ``line`` is 1-based, ``column``
    is that of the first key. In block style ``end`` is the end of the last value, else the position
    after the closing brace.
    """

    items: dict[str, tuple[Scalar, Node]]
    flow: bool
    start: int
    end: int
    line: int
    column: int


class Sequence(Struct):
    """Items in order; ``end`` and ``line`` are as in a mapping."""

    items: list[Node]
    end: int
    line: int


Node = Scalar | Mapping | Sequence
_OURS = (Mapping, Sequence)
"""The nodes that are made here; a scalar is an event of PyYAML, with marks instead of numbers."""


# Events that were parsed have their marks; their types allow None, hence Any.


def start_of(key: Any) -> int:
    """Return where a key begins, as an offset in characters."""
    return key.start_mark.index  # type: ignore[no-any-return]


def end_of(node: Any) -> int:
    """Return where a node or an event ends.

    A block scalar ends after the blank lines that follow it.
    """
    is_ours = isinstance(node, _OURS)
    return node.end if is_ours else node.end_mark.index  # type: ignore[no-any-return]


def line_of(node: Any) -> int:
    """Return the line of a node or an event, 1-based."""
    is_ours = isinstance(node, _OURS)
    return node.line if is_ours else node.start_mark.line + 1  # type: ignore[no-any-return]


@lru_cache(maxsize=4096)  # most of a file consists of the same few keys and numbers
def plain_kind(text: str) -> str:
    """Return the type of unquoted text in YAML 1.1: ``str``, ``int``, ``bool``, ``null``, ..."""
    for tag, pattern in _RESOLVERS.get(text[:1], ()):
        if pattern.match(text):
            return str(tag).rpartition(":")[2]
    return "str"


def kind(node: Node) -> str:
    """Return the type of any node, like ``plain_kind``, or ``mapping`` or ``sequence``."""
    if isinstance(node, Scalar):
        return "str" if node.style else plain_kind(node.value)
    return "mapping" if isinstance(node, Mapping) else "sequence"


def parse(text: str) -> Node:
    """Return the only document of ``text``, which has no byte order mark.

    Raises ``BaselineError`` with the line of whatever is not allowed, and without a path.
    """
    conflict = _CONFLICT.search(text)
    if conflict:
        raise BaselineError(
            f"merge-conflict marker {conflict[0]}",
            line=line_at(text, conflict.start()),
            step="take one side (git checkout --ours, or --theirs), then run pytest with "
            "--graph-budget-update",
        )
    try:
        loader = _Loader(text)
        try:
            with without_collector():
                return _Builder(loader.get_event).document()
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise _yaml_error(error, text) from None


class _Builder:
    """Makes a tree of the parser's events, for one call of ``document``.

    ``next_event`` returns one event after the other. The ``depth`` that methods are given is the
    level of nesting of the node that they make: 1 for the document itself.
    """

    def __init__(self, next_event: Callable[[], Any]) -> None:
        self.next_event = next_event

    def document(self) -> Node:
        self.next_event()  # the start of the stream
        # The start of the document; an empty file has none.
        if type(self.next_event()) is StreamEndEvent:
            raise _error("the file is empty", 1, "delete it, or take it from git again")
        node = self.node(self.next_event(), 1)
        self.next_event()  # the end of the document
        event = self.next_event()
        if type(event) is not StreamEndEvent:
            line = line_of(event)
            raise _error("a second YAML document", line, "a file holds one; merge them")
        return node

    # The two loops below process every event of a file, 20 for each test: types are compared by
    # identity, and scalars are checked in place.

    def node(self, event: Any, depth: int) -> Node:
        if type(event) is AliasEvent or event.anchor is not None or event.tag is not None:
            raise self.refusal(event)
        if type(event) is ScalarEvent:
            return event
        if depth > DEEPEST:
            line = line_of(event)
            raise _error(f"nested more than {DEEPEST} deep", line, "no baseline is")
        if type(event) is MappingStartEvent:
            return self.mapping(event, depth)
        assert type(event) is SequenceStartEvent
        return self.sequence(event, depth)

    def mapping(self, event: Any, depth: int) -> Mapping:
        next_event = self.next_event  # a local name, as the loop runs so often
        mark = event.start_mark
        items: dict[str, tuple[Scalar, Node]] = {}
        node = Mapping(items, event.flow_style, mark.index, mark.index, mark.line + 1, mark.column)
        value: Any = None
        while type(key := next_event()) is ScalarEvent:
            text = key.value
            if key.tag is not None or key.anchor is not None or text in items:
                raise self.refusal(key, items)
            if not key.style and plain_kind(text) != "str":
                raise self.refusal(key)
            value = next_event()
            if type(value) is not ScalarEvent or value.tag is not None or value.anchor is not None:
                value = self.node(value, depth + 1)
            items[text] = (key, value)
        if type(key) is not MappingEndEvent:
            raise self.refusal(key)
        node.end = end_of(value) if value is not None and not node.flow else end_of(key)
        return node

    def sequence(self, event: Any, depth: int) -> Sequence:
        items: list[Node] = []
        first = event
        while type(event := self.next_event()) is not SequenceEndEvent:
            items.append(self.node(event, depth + 1))
        end = end_of(items[-1]) if items and not first.flow_style else end_of(event)
        return Sequence(items, end, line_of(first))

    def refusal(
        self, event: Any, items: dict[str, tuple[Scalar, Node]] | None = None
    ) -> BaselineError:
        """Return the error for an event that is not allowed at its place."""
        line = line_of(event)
        if type(event) is AliasEvent:
            return _error(f"an alias (*{event.anchor})", line, "write the values out")
        if event.anchor is not None:
            return _error(f"an anchor (&{event.anchor})", line, "write the values out")
        if event.tag is not None:
            return _error(f"a YAML tag ({event.tag})", line, "leave it out")
        if type(event) is not ScalarEvent:
            return _error("a key that is a list or a mapping", line, "write a name")
        text = event.value
        if items and text in items:
            first = line_of(items[text][0])
            message = f"duplicate key {brief(text)}, first on line {first}"
            return _error(message, line, "keep one of the two")
        step = f'quote it: "{text}"' if text else "write a name"
        return _error(f"the key {text or '(nothing)'} is not text in YAML", line, step)


def _error(message: str, line: int, step: str) -> BaselineError:
    return BaselineError(message, line=line, step=step)


def _yaml_error(error: yaml.YAMLError, text: str) -> BaselineError:
    """Convert an error of PyYAML to one in the words of a reader of the file."""
    unreadable = _UNREADABLE.search(text)
    if unreadable and isinstance(error, yaml.reader.ReaderError):
        return BaselineError(
            f"the character U+{ord(unreadable[0]):04X} is not allowed in a YAML file",
            line=line_at(text, unreadable.start()),
            step=r'write it as an escape in double quotes, such as "\u0007"',
        )
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line = None
    if mark is not None:
        lines = text.split("\n")
        line = min(mark.line + 1, len(lines))  # libyaml can point behind the end
        bad = lines[line - 1]
        if "\t" in bad[: len(bad) - len(bad.lstrip())]:
            message = "a tab in the indentation"
            return BaselineError(message, line=line, step="use spaces")
    problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
    step = "correct it, or take the file from git again"
    return BaselineError(f"not valid YAML: {problem}", line=line, step=step)


def line_at(text: str, index: int) -> int:
    """Return the line of an offset, 1-based."""
    return text.count("\n", 0, index) + 1


def brief(text: str) -> str:
    """Return a text in quotes, cut if it is long, for a message."""
    quoted = repr(text)
    return quoted if len(quoted) <= 80 else f"{quoted[:77]}..."
