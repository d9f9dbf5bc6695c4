"""What a baseline file says: its plain data, and the entries that are made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Mapping as Map
from dataclasses import dataclass
from dataclasses import field as made
from pathlib import Path
from typing import Any

from pytest_graphbreak.baseline.model import Entry, Override
from pytest_graphbreak.baseline.tree import Mapping
from pytest_graphbreak.model.budget import BaselinePlace, Cause, Values
from pytest_graphbreak.model.layers import COMPILERS
from pytest_graphbreak.model.versions import Versions

FILE_KEYS = ("version", "profile", *COMPILERS, "packages", "tests")
VALUE_KEYS = ("graphs", "recompiles", "ops", "functions", "causes", "breaks", "eager")
TEST_KEYS = ("note", "ungated", "cases")
ENTRY_KEYS = ("note", "ungated", "profile", *COMPILERS, *VALUE_KEYS, "overrides")
OVERRIDE_KEYS = (*COMPILERS, *VALUE_KEYS)
PLACE_KEYS = ("layer", "reason", "id", "where", "code", "count")
CAUSE_KEYS = ("layer", "cause", "where", "code", "count")

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
        values=Values(**named(raw)) if recorded or zeros else None,
        overrides={
            profile: Override(**named(item), versions=stated(item, document.versions))
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


def named(raw: Raw) -> dict[str, Any]:
    """The values that the data of an entry or an override names, by their key."""
    return {key: _VALUE.get(key, _as_it_is)(raw[key]) for key in VALUE_KEYS if key in raw}


def parse_place(raw: Raw) -> BaselinePlace:
    """A place from its plain data, whose keys are those of ``PLACE_KEYS``."""
    return BaselinePlace(**raw)


def cause(raw: Raw) -> Cause:
    """A cause from its plain data, whose keys are those of ``CAUSE_KEYS``."""
    return Cause(**raw)


def places(items: list[Raw]) -> tuple[BaselinePlace, ...]:
    """A list of places from its plain data."""
    return tuple(map(parse_place, items))


def functions(raw: Raw) -> dict[str, int]:
    """How many operations functions hold, by ``file::qualified.name``, from plain data."""
    return {f"{file}::{name}": count for file in raw for name, count in raw[file].items()}


def _causes(items: list[Raw]) -> tuple[Cause, ...]:
    return tuple(map(cause, items))


def _as_it_is(counts: Raw) -> Raw:
    return counts


_VALUE: Map[str, Callable[[Any], Any]] = {
    "functions": functions,
    "causes": _causes,
    "breaks": places,
    "eager": places,
}
"""What is made of values; counts are as they are."""
