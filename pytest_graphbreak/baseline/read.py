"""Reading one baseline file, strictly: a tree of nodes in, plain data with line numbers out.

Whatever is not as docs/reference/baseline-file.md says is a ``BaselineError``
with file and line. The checks run down the tree beside the conversion, so that
each error knows its node.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn

from pytest_graphbreak.baseline.document import (
    CAUSE_KEYS,
    ENTRY_KEYS,
    FILE_KEYS,
    OVERRIDE_KEYS,
    PLACE_KEYS,
    TEST_KEYS,
    Document,
    Raw,
    cause,
    parse_place,
)
from pytest_graphbreak.baseline.model import BaselineError
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
from pytest_graphbreak.model.budget import PLACES_LAYER
from pytest_graphbreak.model.layers import BREAKING, CAUSES, COMPILERS, LAYERS

VERSION = 1
_COUNT = re.compile(r"0|[1-9][0-9]{0,17}")
_VERSION = re.compile(r"[0-9]+\.[0-9]+([.+a-z][0-9A-Za-z.+]*)?")


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
        self.value: dict[str, Callable[[Node, str], Any]] = {
            **dict.fromkeys(COMPILERS, self.made_with),
            **dict.fromkeys(("graphs", "recompiles", "ops"), self.counts),
            **dict.fromkeys(("breaks", "eager"), self.places),
            "causes": self.causes,
            "functions": self.functions,
        }

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
        versions = {
            name: self.made_with(root.items[name][1], name)
            for name in COMPILERS
            if name in root.items
        }
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
            if field in self.value:
                raw[field] = self.value[field](value, field)
        return raw

    def counts(self, node: Node, what: str) -> Raw:
        counts = self.mapping(node, what, "layers to counts, such as {dynamo: 1}")
        self.keys(counts, LAYERS, what, "layer")
        return {
            layer: self.count(value, f"{what} of {layer}")
            for layer, (_, value) in counts.items.items()
        }

    def places(self, node: Node, what: str) -> list[Raw]:
        return self.items(node, what, "place", self.place, lambda raw: parse_place(raw).key)

    def causes(self, node: Node, what: str) -> list[Raw]:
        return self.items(node, what, "cause", self.cause, lambda raw: cause(raw).key)

    def items(
        self,
        node: Node,
        what: str,
        noun: str,
        read: Callable[[Node, str], Raw],
        key: Callable[[Raw], object],
    ) -> list[Raw]:
        """A list in which no two items have one ``key``."""
        if not isinstance(node, Sequence):
            self.wrong(node, what, f"a list of {noun}s")
        seen: dict[object, int] = {}
        found = []
        for item in node.items:
            raw = read(item, f"an item of {what}")
            if (known := key(raw)) in seen:
                self.fail(
                    f"the same {noun} twice in {what}, first on line {seen[known]}",
                    line_of(item),
                    "keep one, with a count for both",
                )
            seen[known] = line_of(item)
            found.append(raw)
        return found

    def place(self, node: Node, what: str) -> Raw:
        place = self.mapping(node, what, "where, code, reason, ...")
        self.keys(place, PLACE_KEYS, what)
        if "where" not in place.items:
            self.fail(f"{what} has no where", place.line, "add where: file::function")
        raw = self.fields(place)
        layer = raw.get("layer", PLACES_LAYER)
        if layer not in BREAKING:
            step = f"allowed: {', '.join(BREAKING)}"
            line = line_of(place.items["layer"][1])
            self.fail(f"{what} names a layer that nothing breaks: {brief(layer)}", line, step)
        return raw

    def cause(self, node: Node, what: str) -> Raw:
        item = self.mapping(node, what, "layer, cause, where, ...")
        self.keys(item, CAUSE_KEYS, what)
        raw = self.fields(item)
        for field in ("layer", "cause"):
            if field not in raw:
                self.fail(f"{what} has no {field}", item.line, f"add {field}:")
        self.word(item, "layer", LAYERS)
        self.word(item, "cause", CAUSES[raw["layer"]])
        return raw

    def fields(self, item: Mapping) -> Raw:
        """What a place or a cause says."""
        return {
            field: self.count(value, "count", least=1)
            if field == "count"
            else self.text(value, field, empty=field in ("where", "code"))
            for field, (_, value) in item.items.items()
        }

    def word(self, node: Mapping, field: str, allowed: Iterable[str]) -> None:
        value = node.items[field][1]
        assert isinstance(value, Scalar)
        if value.value not in allowed:
            step = f"allowed: {', '.join(allowed)}"
            self.fail(f"{field} is {brief(value.value)}", line_of(value), step)

    def functions(self, node: Node, what: str) -> Raw:
        files = self.mapping(node, what, "files to functions, such as {a.py: {f: 12}}")
        found: Raw = {}
        for file, (_, value) in files.items.items():
            shown = f"{what} of {brief(file)}"
            names = self.mapping(value, shown, "functions to counts")
            found[file] = {
                name: self.count(count, f"{shown}: {name}")
                for name, (_, count) in names.items.items()
            }
        return found

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

    def made_with(self, value: Node, name: str) -> str:
        """The version of a compiler."""
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
