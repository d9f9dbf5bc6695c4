"""Strict reading of one baseline file: text in, entries with line numbers out.

In two steps. The text becomes a tree of nodes that know their lines (``tree``); then a reader
descends it, checks each node and converts it to plain data, so that every error knows its node.
Readers are made of the types of ``form``, which define what is allowed: a Struct has the readers of
its fields, a list that of its items. Of the plain data, ``_document`` makes the entries. Whatever
does not conform to docs/reference/baseline-file.md raises a ``BaselineError`` with file and line.

``store`` loads files that are judged by; ``update`` parses those that it changes, with their tree.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from collections.abc import Mapping as Map
from functools import cache, lru_cache
from pathlib import Path
from sys import intern
from typing import Any, Final, NoReturn

from msgspec import inspect

from pytest_graphbreak.baseline import form
from pytest_graphbreak.baseline.files import load_text
from pytest_graphbreak.baseline.form import complete
from pytest_graphbreak.baseline.model import (
    BaselineError,
    Document,
    Entries,
    Entry,
    Override,
)
from pytest_graphbreak.baseline.rules import WHOLE
from pytest_graphbreak.baseline.tree import (
    Mapping,
    Node,
    Scalar,
    Sequence,
    brief,
    kind,
    line_of,
    parse,
    plain_kind,
)
from pytest_graphbreak.model.budget import KEYS, BaselinePlace, Cause, Values
from pytest_graphbreak.model.layers import CAUSES
from pytest_graphbreak.model.versions import COMPILERS, Versions
from pytest_graphbreak.text.files import without_collector

_COUNT = re.compile(r"0|[1-9][0-9]{0,17}")
"""A count in decimal digits; not ``010`` or ``1_000``, which YAML 1.1 takes for numbers, too."""

Raw = dict[str, Any]
"""The keys of a mapping that was checked, with their values."""
_LINE: Final = "its line"
"""The key of the line of a test, a case or an override in its ``Raw``.

It is no key of a file, as none has a blank.
"""
Read = Callable[[Node, str], Any]
"""A reader: checks and converts a node. The text is the node's name in an error message."""


def load(path: Path, file: str) -> Document | None:
    """Read a file, or return None if there is none. ``file`` is the test file it belongs to.

    Raises ``BaselineError`` with the line of the first error.
    """
    text = load_text(path)
    return None if text is None else document(text, path, file)


def document(text: str, path: Path, file: str) -> Document:
    """Check the text of a baseline file.

    Raises ``BaselineError`` with the line of the first error.
    """
    return parse_document(text, path, file)[0]


def parse_document(text: str, path: Path, file: str) -> tuple[Document, Mapping]:
    """Return the same as ``document``, and the nodes of the text without its byte order mark."""
    try:
        with without_collector():
            root = parse(text.removeprefix("\ufeff"))
            if isinstance(root, Mapping) and "version" in root.items:
                # This comes first, since the keys of another version may differ.
                _check_version(root.items["version"][1])
            raw = _reader(form.File)(root, "the file")
            assert isinstance(root, Mapping)  # the reader has refused anything else
            return _document(raw, path, file), root
    except BaselineError as error:
        error.path = path
        raise


def _check_version(node: Node) -> None:
    if not isinstance(node, Scalar) or kind(node) != "int":
        _wrong(node, "version", f"the number {form.VERSION}")
    if node.value != str(form.VERSION):
        _fail(
            f"version {node.value} is not known",
            node,
            f"this pytest-graphbreak reads version {form.VERSION}: use the one that wrote the file",
        )


def _document(raw: Raw, path: Path, file: str) -> Document:
    top = Document(path, file, raw["profile"], _versions(raw, {}), raw.get("packages", {}))
    for name, test in raw["tests"].items():
        # A test without cases has its remarks twice: in Entries, as every test, and in its entry.
        cases = test.get("cases", {None: test})
        entries = {case: _entry(top, name, case, entry) for case, entry in cases.items()}
        top.tests[name] = Entries(test.get("note"), test.get("ungated"), test[_LINE], entries)
    return top


def _entry(top: Document, test: str, case: str | None, raw: Raw) -> Entry:
    recorded = not KEYS.keys().isdisjoint(raw)
    overrides = raw.get("overrides", {})
    # An entry of zeros has no key. An entry with only overrides, or only a reason not to be
    # judged, was not recorded.
    zeros = not overrides and "ungated" not in raw
    return top.new_entry(
        test,
        case,
        **{key: raw[key] for key in ("profile", *form.REMARKS) if key in raw},
        versions=_versions(raw, top.versions),
        values=_values(raw) if recorded or zeros else None,
        overrides={name: _override(top, override) for name, override in overrides.items()},
        line=raw[_LINE],
    )


def _override(top: Document, raw: Raw) -> Override:
    keys = WHOLE & raw.keys()
    return Override(_values(raw), _versions(raw, top.versions), keys)


def _versions(raw: Raw, above: Versions) -> Versions:
    """Return the stated versions of compilers, completed by those of the file."""
    stated = {name: raw[name] for name in COMPILERS if name in raw}
    return {**above, **stated} if stated else above


def _values(raw: Raw) -> Values:
    return Values(**complete({key: raw[key] for key in KEYS if key in raw}))


# readers of nodes, made of the types: once in a process, since ``_reader`` keeps them


@cache
def _reader(cls: type) -> Read:
    return _read_as(inspect.type_info(cls))


def _read_as(shape: inspect.Type) -> Read:
    """Return the reader of a type, as msgspec describes it: its ``shape``.

    ``form`` adds metadata to its types for these readers: ``checked``, ``holds`` and ``item``
    (``form._with_description``); ``enum`` is of the schema, and lists what a text may be.
    """
    metadata: Raw = {}
    while isinstance(shape, inspect.Metadata):
        metadata |= {**(shape.extra_json_schema or {}), **(shape.extra or {})}
        shape = shape.type
    if isinstance(shape, inspect.StructType):
        return _struct(shape)
    if isinstance(shape, inspect.DictType):
        return _mapping(shape, metadata)
    if isinstance(shape, inspect.ListType):
        return _items(shape)
    if isinstance(shape, inspect.IntType):
        return _count(shape.ge or 0)
    if isinstance(shape, inspect.StrType):
        return _text(shape, None if "checked" in metadata else metadata.get("enum"))
    assert isinstance(shape, inspect.AnyType), f"form has no other types: {shape}"
    return _test  # the keys of a test say which of two forms it has


def _test(node: Node, what: str) -> Raw:
    """Check and convert a test; a test with cases has other keys."""
    if not isinstance(node, Mapping) or "cases" not in node.items:
        return _reader(form.Entry)(node, what)  # type: ignore[no-any-return]
    of_cases = {*form.keys(form.Entry)} - {*form.REMARKS}
    for name, (key, _) in node.items.items():
        if name in of_cases:
            step = f"put {name} into the case that it belongs to"
            _fail(f"{what} has both cases and {name}", key, step)
    return _reader(form.Cases)(node, what)  # type: ignore[no-any-return]


def _struct(shape: inspect.StructType) -> Read:
    readers = {field.name: _read_as(field.type) for field in shape.fields}
    required = [field.name for field in shape.fields if field.required]
    build = _BUILD.get(shape.cls)
    expected = f"a mapping of {', '.join([*readers][:4])}, ..."

    def read(node: Node, what: str) -> Any:
        if not isinstance(node, Mapping):
            _wrong(node, what, expected)
        raw = {}
        for name, (key, part) in node.items.items():
            reader = readers.get(name)
            if reader is None:
                _unknown(key, what, "key", readers)
            raw[name] = reader(part, name)
        for name in required:
            if name not in raw:
                _fail(f"{what} has no {name}", node, f"add {name}:")
        return raw if build is None else build(raw, node)

    return read


def _mapping(shape: inspect.DictType, metadata: Raw) -> Read:
    """Return a check of a mapping; those of an ``item`` (a test, a case) learn their line."""
    reader, item, least = _read_as(shape.value_type), metadata.get("item"), shape.min_length or 0
    expected, keys = f"a mapping of {metadata['holds']}", shape.key_type
    allowed = None
    if isinstance(keys, inspect.Metadata):
        allowed = (keys.extra_json_schema or {}).get("enum")
    needs_name = isinstance(keys, inspect.StrType) and keys.min_length

    def read(node: Node, what: str) -> Raw:
        if not isinstance(node, Mapping):
            _wrong(node, what, expected)
        if len(node.items) < least:
            _fail(f"{what} is empty", node, "delete the test, or record it again")
        raw = {}
        for name, (key, part) in node.items.items():
            if allowed is not None and name not in allowed:
                _unknown(key, what, "layer", allowed)
            if not name and needs_name:
                _fail(f"{what} has a key without a name", key, "name it")
            if item is None:
                raw[name] = reader(part, f"{what} of {name}")
            else:
                raw[name] = reader(part, item + brief(name))
                raw[name][_LINE] = line_of(key)
        return raw

    return read


def _items(shape: inspect.ListType) -> Read:
    """Return a check of a list in which no two items are the same, by their ``key``."""
    form_of_item = shape.item_type
    reader, most = _read_as(form_of_item), shape.max_length
    noun = _ITEM_NOUNS[form_of_item.cls] if isinstance(form_of_item, inspect.StructType) else "text"

    def read(node: Node, what: str) -> tuple[Any, ...]:
        if not isinstance(node, Sequence):
            _wrong(node, what, f"a list of {noun}s")
        if most is not None and len(node.items) > most:
            _fail(f"{what} has {len(node.items)} items", node, f"keep {most} of them")
        what_item = f"an item of {what}"
        items = tuple([reader(part, what_item) for part in node.items])
        if len(items) > 1:  # most lists have one
            _refuse_repeats(items, node.items, what, noun)
        return items

    return read


def _refuse_repeats(items: Iterable[Any], nodes: Iterable[Node], what: str, noun: str) -> None:
    firsts: dict[object, Node] = {}
    for item, node in zip(items, nodes, strict=True):
        is_text = isinstance(item, str)
        first = firsts.setdefault(item if is_text else item.key, node)
        if first is not node:
            again = f"the same {noun} twice in {what}, first on line {line_of(first)}"
            _fail(again, node, "keep one" if is_text else "keep one, with a count for both")


def _text(words: inspect.StrType, allowed: Iterable[str] | None) -> Read:
    pattern = re.compile(words.pattern) if words.pattern else None

    def read(node: Node, what: str) -> str:
        if not isinstance(node, Scalar) or not (node.style or plain_kind(node.value) == "str"):
            _wrong(node, what, "text")
        text: str = node.value
        if pattern is not None and not pattern.search(text):
            if not text.strip():
                _fail(f"{what} is empty", node, "fill it in, or leave the key out")
            # Of the two types with a pattern, ``Words`` takes any text that is not blank.
            step = 'write the minor version in quotes, such as "2.9"'
            _fail(f"{what} is {brief(text)}, no version", node, step)
        if allowed is not None and text not in allowed:
            _fail(f"{what} is {brief(text)}", node, f"allowed: {', '.join(allowed)}")
        return intern(text)  # files repeat a few places and reasons

    return read


def _count(least: int) -> Read:
    def read(node: Node, what: str) -> int:
        if not isinstance(node, Scalar) or node.style or not _COUNT.fullmatch(node.value):
            _no_count(node, what)
        count = int(node.value)
        if count < least:
            _fail(f"{what} is {count}", node, f"leave it out, or {least} or more")
        return count

    return read


def _cause(raw: Raw, node: Mapping) -> Cause:
    allowed = CAUSES[raw["layer"]]
    if raw["cause"] not in allowed:
        message = f"cause is {brief(raw['cause'])}"
        _fail(message, node.items["cause"][1], f"allowed: {', '.join(allowed)}")
    cause: Cause = _shared(Cause(**raw))
    return cause


@lru_cache(10_000)
def _shared(item: Any) -> Any:
    """Return the first of equal places or causes: a file repeats a few of them."""
    return item


_BUILD: Final[Map[type, Callable[[Raw, Mapping], Any]]] = {
    form.PlaceKeys: lambda raw, node: _shared(BaselinePlace(**raw)),
    form.CauseKeys: _cause,
}
_ITEM_NOUNS: Final[Map[type, str]] = {form.PlaceKeys: "place", form.CauseKeys: "cause"}


# errors


def _unknown(key: Scalar, what: str, noun: str, allowed: Iterable[str]) -> NoReturn:
    near = difflib.get_close_matches(key.value, allowed, n=1, cutoff=0.5)
    step = f"did you mean {near[0]}?" if near else f"allowed: {', '.join(allowed)}"
    _fail(f"{what} has an unknown {noun} {brief(key.value)}", key, step)


def _no_count(node: Node, what: str) -> NoReturn:
    if not isinstance(node, Scalar) or kind(node) != "int":
        _wrong(node, what, "a whole number")
    if node.value.startswith("-"):
        _fail(f"{what} is negative ({node.value})", node, "counts begin at 0")
    _fail(f"{what} is {brief(node.value)}, no count", node, "write it in decimal digits")


def _wrong(node: Node, what: str, expected: str) -> NoReturn:
    got, step = kind(node), "see docs/reference/baseline-file.md"
    if not isinstance(node, Scalar):
        got = _KIND_NOUNS[got]
    elif got == "null":
        got = "nothing"
    else:
        got = f"{_KIND_NOUNS.get(got, got)} ({brief(str(node.value))})"
    if isinstance(node, Scalar) and kind(node) != "str" and expected == "text":
        step = f'quote it: "{node.value}"' if node.value else "fill it in, or leave it out"
    _fail(f"{what} must be {expected}, not {got}", node, step)


def _fail(message: str, node: Node, step: str) -> NoReturn:
    raise BaselineError(message, line=line_of(node), step=step)


_KIND_NOUNS: Final = {
    "str": "text",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "timestamp": "a date",
    "mapping": "a mapping",
    "sequence": "a list",
}
