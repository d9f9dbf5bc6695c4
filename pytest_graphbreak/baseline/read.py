"""Reading one baseline file, strictly: a tree of nodes in, plain data with line numbers out.

Whatever is not as docs/reference/baseline-file.md says is a ``BaselineError``
with file and line. The checks run down the tree beside the conversion, so that
each error knows its node.
"""

from __future__ import annotations

import difflib
import os
import re
import stat
from collections.abc import Iterable, Iterator
from collections.abc import Mapping as Map
from dataclasses import dataclass
from dataclasses import field as made
from pathlib import Path
from typing import Any, NoReturn

from pytest_graphbreak.baseline.model import BaselineError, Entry, Override
from pytest_graphbreak.baseline.tree import (
    Mapping,
    Node,
    Scalar,
    Sequence,
    brief,
    kind,
    line_of,
    parse,
)
from pytest_graphbreak.model.budget import PLACES_LAYER, BaselinePlace, Cause, Values
from pytest_graphbreak.model.layers import BREAKING, CAUSES, COMPILERS, LAYERS
from pytest_graphbreak.model.versions import Versions

VERSION = 1
LARGEST = 32 * 1024 * 1024
"""Bytes of a file that is read; 100,000 tests are about 20 MB."""

FILE_KEYS = ("version", "profile", *COMPILERS, "packages", "tests")
VALUE_KEYS = ("graphs", "recompiles", "ops", "functions", "causes", "breaks", "eager")
TEST_KEYS = ("note", "ungated", "cases")
ENTRY_KEYS = ("note", "ungated", "profile", *COMPILERS, *VALUE_KEYS, "overrides")
OVERRIDE_KEYS = (*COMPILERS, *VALUE_KEYS)
PLACE_KEYS = ("layer", "reason", "id", "where", "code", "count")
CAUSE_KEYS = ("layer", "cause", "where", "code", "count")

_COUNT = re.compile(r"0|[1-9][0-9]{0,17}")
_CUT_OFF = re.compile(
    rb"(?:^|[\r\n])(?:[ -]+|[ -]*(?:layer|reason|id|where|code|count):[^\r\n]*)\Z"
)
"""A last line without an end, in a place or before one."""
LONGEST_LINE = 100_000
_VERSION = re.compile(r"[0-9]+\.[0-9]+([.+a-z][0-9A-Za-z.+]*)?")

Raw = dict[str, Any]
"""A mapping of a baseline file as plain data: exactly the keys that are written."""


@dataclass(frozen=True, slots=True)
class Document:
    """A baseline file. ``tests`` is its plain data, ``lines`` are those of tests and cases."""

    path: Path
    file: str
    profile: str
    versions: Versions
    tests: Map[str, Raw]
    lines: dict[tuple[str, str | None], int]
    root: Mapping | None = None
    packages: dict[str, str] = made(default_factory=dict)

    def entry(self, test: str, case: str | None) -> Entry | None:
        """The entry of a test; for a case also where only its test has something to say."""
        raw = self.tests.get(test)
        if raw is None:
            return None
        found = own(raw, case)
        if found is None:
            if "ungated" not in raw:
                return None
            return build(self, test, case, {"ungated": raw["ungated"]}, raw)
        return build(self, test, case, found, raw)

    def entries(self) -> Iterator[Entry]:
        """Every test and case that has an entry of its own, in the order of the file."""
        for test, raw in self.tests.items():
            for case in raw.get("cases", (None,)):
                entry = self.entry(test, case)
                assert entry is not None, "what the file has is there"
                yield entry


def own(raw: Raw, case: str | None) -> Raw | None:
    """The data of a test, or of one of its cases; None if there is none."""
    if case is not None:
        found: Raw | None = raw.get("cases", {}).get(case)
        return found
    return None if "cases" in raw else raw


def load_text(path: Path) -> str | None:
    """The text of a file, with its line ends and byte order mark as they are; None if absent."""
    try:
        with open(path, "rb", opener=_open_at_once) as stream:
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise BaselineError("is no regular file", path=path, step="move it away")
            if status.st_size > LARGEST:
                raise BaselineError(
                    f"is larger than {LARGEST // 1024 // 1024} MiB, and is not read",
                    path=path,
                    step="split the test file, or delete this file and record it again",
                )
            data = stream.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        step = "make it a file that can be read"
        raise BaselineError(_reason(error, "cannot be read"), path=path, step=step) from None
    if is_cut_off(data):
        raise BaselineError(
            "ends in the middle of a line, as a file that was cut off does",
            path=path,
            line=data.count(b"\n") + 1,
            step="take it from git again; if it is whole, end its last line",
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BaselineError(
            f"is not UTF-8 (byte 0x{data[error.start]:02x})",
            path=path,
            line=data.count(b"\n", 0, error.start) + 1,
            step="save it as UTF-8, or take it from git again",
        ) from None


def is_cut_off(data: bytes) -> bool:
    """Whether a file may have lost its end: what is left of a place is a place, too."""
    return _CUT_OFF.search(data[-LONGEST_LINE:]) is not None


def _open_at_once(path: str, flags: int) -> int:
    # Opening a named pipe would wait for its other end.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _reason(error: OSError, what: str) -> str:
    return f"{what} ({error.strerror or error})"


def document(text: str, path: Path, file: str) -> Document:
    """Check the text of a baseline file. ``BaselineError`` with the line of the first fault."""
    root = parse(text.removeprefix("\ufeff"), path)
    return _DocumentReader(path).document(root, file)


def parsed_test(text: str, path: Path) -> Raw:
    """The data of one test from its lines. ``BaselineError`` as for a whole file."""
    root = parse(text, path)
    assert isinstance(root, Mapping)
    ((name, (key, node)),) = root.items.items()
    return _DocumentReader(path).test(name, key, node)


class _DocumentReader:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: dict[tuple[str, str | None], int] = {}

    def document(self, root: Node, file: str) -> Document:
        if not isinstance(root, Mapping):
            self.wrong(root, "the file", "a mapping with version, profile, torch and tests")
        if "version" in root.items:
            # First, since the keys of another version may be others.
            self.version(root.items["version"][1])
        self.keys(root, FILE_KEYS, "the file")
        for key in ("version", "profile", "tests"):
            if key not in root.items:
                self.fail(f"{key} is missing", root.line, f"add {key}: at the top of the file")
        profile = self.text(root.items["profile"][1], "profile")
        versions = {name: self.made_with(root, name) for name in COMPILERS if name in root.items}
        tests = self.mapping(root.items["tests"][1], "tests", "test names to entries")
        return Document(
            path=self.path,
            file=file,
            profile=profile,
            versions=versions,
            tests={name: self.test(name, key, node) for name, (key, node) in tests.items.items()},
            lines=self.lines,
            root=root,
            packages=self.packages(root) if "packages" in root.items else {},
        )

    def packages(self, root: Mapping) -> dict[str, str]:
        node = self.mapping(root.items["packages"][1], "packages", "names to versions")
        return {
            name: self.text(value, f"the version of {brief(name)}")
            for name, (_, value) in node.items.items()
        }

    def version(self, node: Node) -> None:
        if not isinstance(node, Scalar) or kind(node) != "int":
            self.wrong(node, "version", f"the number {VERSION}")
        if node.value != str(VERSION):
            self.fail(
                f"version {node.value} is not known",
                line_of(node),
                f"this pytest-graphbreak reads version {VERSION}: use the one that wrote the file",
            )

    def test(self, name: str, key: Scalar, node: Node) -> Raw:
        what = brief(name)
        if not name:
            self.fail("a test without a name", line_of(key), "name it as pytest does, after ::")
        line = self.lines[name, None] = line_of(key)
        entry = self.mapping(node, what, "graphs, breaks, ... or cases")
        if "cases" not in entry.items:
            return self.entry(entry, what)
        for field in entry.items:
            if field in ENTRY_KEYS and field not in TEST_KEYS:
                self.fail(
                    f"{what} has both cases and {field}",
                    line_of(entry.items[field][0]),
                    f"put {field} into the case that it belongs to",
                )
        self.keys(entry, TEST_KEYS, what)
        raw = self.remarks(entry)
        cases = self.mapping(entry.items["cases"][1], f"cases of {what}", "parameter ids")
        if not cases.items:
            self.fail(f"cases of {what} is empty", line, "delete the test, or record it again")
        raw["cases"] = {}
        for case, (case_key, value) in cases.items.items():
            self.lines[name, case] = line_of(case_key)
            shown = brief(f"{name}[{case}]")
            raw["cases"][case] = self.entry(self.mapping(value, shown, "graphs, ..."), shown)
        return raw

    def entry(self, node: Mapping, what: str) -> Raw:
        self.keys(node, ENTRY_KEYS, what)
        raw = self.remarks(node)
        if "profile" in node.items:
            raw["profile"] = self.text(node.items["profile"][1], "profile")
        self.values(node, raw)
        if "overrides" in node.items:
            overrides = self.mapping(node.items["overrides"][1], "overrides", "profiles to values")
            raw["overrides"] = {}
            for profile, (key, value) in overrides.items.items():
                if not profile:
                    self.fail("a profile without a name", line_of(key), "name it")
                shown = f"the override {brief(profile)}"
                override = self.mapping(value, shown, "graphs, ...")
                self.keys(override, OVERRIDE_KEYS, shown)
                raw["overrides"][profile] = self.values(override, {})
        return raw

    def remarks(self, node: Mapping) -> Raw:
        return {
            field: self.text(node.items[field][1], field)
            for field in ("note", "ungated")
            if field in node.items
        }

    def values(self, node: Mapping, raw: Raw) -> Raw:
        for field, (_, value) in node.items.items():
            if field in COMPILERS:
                raw[field] = self.made_with(node, field)
            elif field in ("graphs", "recompiles", "ops"):
                raw[field] = self.counts(value, field)
            elif field in ("breaks", "eager"):
                raw[field] = self.places(value, field)
            elif field == "causes":
                raw[field] = self.causes(value)
            elif field == "functions":
                raw[field] = self.functions(value)
        return raw

    def counts(self, node: Node, what: str) -> Raw:
        counts = self.mapping(node, what, "layers to counts, such as {dynamo: 1}")
        self.keys(counts, LAYERS, what, "layer")
        return {
            layer: self.count(value, f"{what} of {layer}")
            for layer, (_, value) in counts.items.items()
        }

    def places(self, node: Node, what: str) -> list[Raw]:
        if not isinstance(node, Sequence):
            self.wrong(node, what, "a list of places")
        seen: dict[tuple[str, str, str], int] = {}
        found = []
        for item in node.items:
            raw = self.place(item, f"an item of {what}")
            line = seen.setdefault(parse_place(raw).key, line_of(item))
            if line != line_of(item):
                self.fail(
                    f"the same place twice in {what}, first on line {line}",
                    line_of(item),
                    "keep one, with a count for both",
                )
            found.append(raw)
        return found

    def causes(self, node: Node) -> list[Raw]:
        if not isinstance(node, Sequence):
            self.wrong(node, "causes", "a list of causes")
        seen: dict[tuple[str, ...], int] = {}
        found: list[Raw] = []
        for item in node.items:
            raw = self.cause(item)
            if (key := cause(raw).key) in seen:
                self.fail(
                    f"the same cause twice in causes, first on line {seen[key]}",
                    line_of(item),
                    "keep one, with a count for both",
                )
            seen[key] = line_of(item)
            found.append(raw)
        return found

    def cause(self, node: Node) -> Raw:
        item = self.mapping(node, "an item of causes", "layer, cause, where, ...")
        self.keys(item, CAUSE_KEYS, "an item of causes")
        raw: Raw = {}
        for field, (_, value) in item.items.items():
            if field == "count":
                raw[field] = self.count(value, "count", least=1)
            else:
                raw[field] = self.text(value, field, empty=field in ("where", "code"))
        for field in ("layer", "cause"):
            if field not in raw:
                self.fail(f"an item of causes has no {field}", item.line, f"add {field}:")
        self.word(item, "layer", LAYERS)
        self.word(item, "cause", CAUSES[raw["layer"]])
        return raw

    def word(self, node: Mapping, field: str, allowed: Iterable[str]) -> None:
        value = node.items[field][1]
        assert isinstance(value, Scalar)
        if value.value not in allowed:
            step = f"allowed: {', '.join(allowed)}"
            self.fail(f"{field} is {brief(value.value)}", line_of(value), step)

    def functions(self, node: Node) -> Raw:
        files = self.mapping(node, "functions", "files to functions, such as {a.py: {f: 12}}")
        found: Raw = {}
        for file, (_, value) in files.items.items():
            names = self.mapping(value, f"functions of {brief(file)}", "functions to counts")
            found[file] = {
                name: self.count(count, f"functions of {brief(file)}: {name}")
                for name, (_, count) in names.items.items()
            }
        return found

    def place(self, node: Node, what: str) -> Raw:
        place = self.mapping(node, what, "where, code, reason, ...")
        self.keys(place, PLACE_KEYS, what)
        if "where" not in place.items:
            self.fail(f"{what} has no where", place.line, "add where: file::function")
        raw: Raw = {}
        for field, (_, value) in place.items.items():
            if field == "count":
                raw[field] = self.count(value, "count", least=1)
            else:
                raw[field] = self.text(value, field, empty=field in ("where", "code"))
        layer = raw.get("layer", PLACES_LAYER)
        if layer not in BREAKING:
            step = f"allowed: {', '.join(BREAKING)}"
            line = line_of(place.items["layer"][1])
            self.fail(f"{what} names a layer that nothing breaks: {brief(layer)}", line, step)
        return raw

    # what every node is checked with

    def keys(self, node: Mapping, allowed: Iterable[str], what: str, noun: str = "key") -> None:
        for name, (key, _) in node.items.items():
            if name not in allowed:
                near = difflib.get_close_matches(name, allowed, n=1, cutoff=0.5)
                step = f"did you mean {near[0]}?" if near else f"allowed: {', '.join(allowed)}"
                self.fail(f"{what} has an unknown {noun} {brief(name)}", line_of(key), step)

    def mapping(self, node: Node, what: str, wanted: str) -> Mapping:
        if not isinstance(node, Mapping):
            self.wrong(node, what, f"a mapping of {wanted}")
        return node

    def text(self, node: Node, what: str, empty: bool = False) -> str:
        if not isinstance(node, Scalar) or kind(node) != "str":
            self.wrong(node, what, "text")
        if not empty and not node.value.strip():
            self.fail(f"{what} is empty", line_of(node), "fill it in, or leave the key out")
        return str(node.value)

    def made_with(self, node: Mapping, name: str) -> str:
        """The version of a compiler."""
        value = node.items[name][1]
        version = self.text(value, name)
        if not _VERSION.fullmatch(version):
            step = 'write the minor version in quotes, such as "2.9"'
            self.fail(f"{name} is {brief(version)}, no version", line_of(value), step)
        return version

    def count(self, node: Node, what: str, least: int = 0) -> int:
        if not isinstance(node, Scalar) or node.style or not _COUNT.fullmatch(node.value):
            self.no_count(node, what)
        count = int(node.value)
        if count < least:
            step = f"leave it out, or {least} or more"
            self.fail(f"{what} is {count}", line_of(node), step)
        return count

    def no_count(self, node: Node, what: str) -> NoReturn:
        if not isinstance(node, Scalar) or kind(node) != "int":
            self.wrong(node, what, "a whole number")
        if node.value.startswith("-"):
            self.fail(f"{what} is negative ({node.value})", line_of(node), "counts begin at 0")
        step = "write it in decimal digits"
        self.fail(f"{what} is {brief(node.value)}, no count", line_of(node), step)

    def wrong(self, node: Node, what: str, wanted: str) -> NoReturn:
        got, step = kind(node), "see docs/reference/baseline-file.md"
        if isinstance(node, Scalar):
            if got != "str" and wanted == "text":
                step = f'quote it: "{node.value}"' if node.value else "fill it in, or leave it out"
            if got == "null":
                got = "nothing"
            else:
                got = f"{_NOUNS.get(got, got)} ({brief(str(node.value))})"
        else:
            got = _NOUNS[got]
        self.fail(f"{what} must be {wanted}, not {got}", line_of(node), step)

    def fail(self, message: str, line: int, step: str) -> NoReturn:
        raise BaselineError(message, path=self.path, line=line, step=step)


_NOUNS = {
    "str": "text",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "timestamp": "a date",
    "mapping": "a mapping",
    "sequence": "a list",
}


def parse_place(raw: Raw) -> BaselinePlace:
    """A place from its plain data."""
    return BaselinePlace(
        where=raw["where"],
        code=raw.get("code", ""),
        count=raw.get("count", 1),
        reason=raw.get("reason"),
        id=raw.get("id"),
        layer=raw.get("layer", PLACES_LAYER),
    )


def cause(raw: Raw) -> Cause:
    """A cause from its plain data."""
    return Cause(
        layer=raw["layer"],
        cause=raw["cause"],
        where=raw.get("where", ""),
        code=raw.get("code", ""),
        count=raw.get("count", 1),
    )


def functions(raw: Raw) -> dict[str, int]:
    """How many operations functions hold, by ``file::qualified.name``, from plain data."""
    return {f"{file}::{name}": count for file in raw for name, count in raw[file].items()}


def build(document: Document, test: str, case: str | None, raw: Raw, above: Raw) -> Entry:
    """An entry from its plain data; ``above`` is that of its test, whose remarks it has too."""
    recorded = any(key in raw for key in VALUE_KEYS)
    overrides = raw.get("overrides", {})
    # An entry of zeros has no key left. One that has only overrides, or only a
    # reason not to be judged, was not recorded.
    zeros = not overrides and "ungated" not in raw
    return Entry(
        file=document.file,
        test=test,
        case=case,
        profile=raw.get("profile", document.profile),
        versions=stated(raw, document.versions),
        values=values(raw) if recorded or zeros else None,
        overrides={
            profile: Override(
                graphs=item.get("graphs", {}),
                recompiles=item.get("recompiles", {}),
                breaks=places(item, "breaks"),
                eager=places(item, "eager"),
                versions=stated(item, document.versions),
                ops=item.get("ops", {}),
                causes=tuple(map(cause, item.get("causes", ()))),
                functions=functions(item["functions"]) if "functions" in item else None,
            )
            for profile, item in overrides.items()
        },
        note=raw.get("note", above.get("note")),
        ungated=raw.get("ungated", above.get("ungated")),
        packages=document.packages,
        path=document.path,
        line=document.lines.get((test, case)) or document.lines.get((test, None), 0),
    )


def stated(raw: Raw, above: Versions) -> Versions:
    """The versions of compilers that an entry or an override states, and those of its file."""
    return {**above, **{name: raw[name] for name in COMPILERS if name in raw}}


def values(raw: Raw) -> Values:
    """The plain values of an entry's data."""
    return Values(
        graphs=raw.get("graphs", {}),
        recompiles=raw.get("recompiles", {}),
        breaks=places(raw, "breaks") or (),
        eager=places(raw, "eager") or (),
        ops=raw.get("ops", {}),
        causes=tuple(map(cause, raw.get("causes", ()))),
        functions=functions(raw.get("functions", {})),
    )


def places(raw: Raw, field: str) -> tuple[BaselinePlace, ...] | None:
    """A list of places from the data of an entry or an override; None if it is not named."""
    return tuple(parse_place(item) for item in raw[field]) if field in raw else None
