"""The report as JSON: where reading and writing differ from the types, and the file.

The types of ``model.report`` and ``model.record`` describe most of it. A test differs, since people
and other programs read it:

| type                                  | in JSON                                              |
| ------------------------------------- | ---------------------------------------------------- |
| ``test.record.graphs``                | ``"graphs"``: the record's keys are among the test's |
| ``record.notes == ("a", "b")``        | ``"note": "a; b"``, or null                          |
| ``record.ops``, a property            | ``"ops"``; not read, as ``graph_list`` says the same |
| a place that is unknown (``NOWHERE``) | ``"where": {}``                                      |

- ``form`` is the type of the JSON as it is: the schema (``baseline.schemas``) is made from it.
- ``report_of`` reads a report, ``entry_of`` one item of its ``tests``: JSON -> types.
- ``report_json`` and ``entry_json`` are their inverse, ``document`` puts such items together, and
  ``write`` writes the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct, structs

from pytest_graphbreak.model.budget import PLACES_LAYER
from pytest_graphbreak.model.differences import LISTS, Difference
from pytest_graphbreak.model.forms import BadValue, Counts, Plain, Text, decode, read, says
from pytest_graphbreak.model.items import NOWHERE, Break, Eager, Graph, LineRuns, Recompile
from pytest_graphbreak.model.record import NOTE_SEPARATOR, Record
from pytest_graphbreak.model.report import RunEnvironment, RunReport, SessionReport, TestReport
from pytest_graphbreak.model.versions import COMPILERS
from pytest_graphbreak.text.files import put

VERSION: Final = 1
"""The version of the report; readers ignore new keys, so it stays with them."""

# The keys of a test that are no field of its record, and what the schema says of the environment.
_OPS: Final = Annotated[
    Counts,
    says(
        "Captured operations by layer: what its graphs call, summed; a layer of which not "
        "every graph is known is left out."
    ),
]
_NOTE: Final = Annotated[Text | None, says("What else is to be said of the record.")]
_MEASURED: Final = "What measured; null for what is not there or not known."

# The keys that are fields with the same name and value.
_OF_TEST: Final = tuple(name for name in TestReport.__struct_fields__ if name != "record")
_OF_RECORD: Final = tuple(name for name in Record.__struct_fields__ if name != "notes")


class _Version(Struct, frozen=True):
    version: Any = None

    def check(self) -> None:
        """Raise ``BadValue`` if the version is another one, whose format is unknown."""
        if type(self.version) is not int or self.version != VERSION:
            raise BadValue(f"{str(self.version)[:40]!r} where {VERSION} is expected", "version")


@cache
def _test_form() -> Any:
    """Return the type of a test as it is in JSON, with its keys in the order of the file."""
    return msgspec.defstruct("Test", [*_test_keys()])


def _test_keys() -> Iterator[tuple[str, Any, Any]]:
    """Yield the keys of a test; those of its record stand where ``record`` does."""
    for field in structs.fields(TestReport):
        if field.name == "record":
            yield from _record_keys()
        else:
            yield _json_key(field)


def _record_keys() -> Iterator[tuple[str, Any, Any]]:
    for field in structs.fields(Record):
        if field.name == "frames":  # the counts come first
            yield "ops", _OPS, {}
        if field.name == "notes":
            yield "note", _NOTE, None
        else:
            yield _json_key(field)


def _json_key(field: structs.FieldInfo) -> tuple[str, Any, Any]:
    """Return a field in the form that ``msgspec.defstruct`` takes."""
    default = {"default": field.default, "default_factory": field.default_factory}
    return field.name, field.type, msgspec.field(**default)


@cache
def form() -> Any:
    """Return the type of the whole report as it is in JSON."""
    tests: Any = tuple[_test_form(), ...]  # type: ignore[misc]
    return msgspec.defstruct(
        "Report",
        [
            ("version", Annotated[Any, Meta(extra_json_schema={"const": VERSION})], None),
            ("environment", Annotated[RunEnvironment, says(_MEASURED)]),
            ("session", SessionReport, SessionReport()),
            ("tests", Annotated[tests, says("One item for each test, that of its last attempt.")]),
        ],
        kw_only=True,
    )


def report_of(data: object, name: str = "") -> RunReport:
    """Read a report from builtin types, or from JSON text as bytes.

    Raises ``BadValue`` (for an unsupported version before any other error), and the errors of
    ``decode``.
    """
    reader: Any = decode if isinstance(data, bytes) else read
    try:
        report = reader(form(), data)
    except BadValue:
        reader(_Version, data).check()
        raise
    _Version(report.version).check()
    _check_profile(report.environment.profile)
    seen: dict[Any, Any] = {}
    tests = []
    for at, item in enumerate(report.tests):
        test = _test(item)
        try:
            test.check()
        except BadValue as fault:
            raise BadValue(fault.message, f"tests[{at}].{fault.place}") from None
        _share(test.record, seen)
        tests.append(test)
    return RunReport(report.environment, tuple(tests), report.session, name)


def _check_profile(profile: str | None) -> None:
    if profile is not None and not profile.isprintable():
        raise BadValue("a profile is printable text", "environment.profile")


def _share(record: Record, seen: dict[Any, Any]) -> None:
    """Share equal places, since a report repeats a few of them: this saves 90% of the memory."""
    located = (*record.breaks, *record.eager, *record.recompile_list, *record.graph_list)
    for name in ("where", "stack"):
        for item in located:
            if value := getattr(item, name, ()):
                # By force, since items are frozen: an equal value is no change.
                structs.force_setattr(item, name, seen.setdefault(value, value))


def entry_of(data: object) -> TestReport:
    """Read one item of the ``tests`` of a report. Raises ``BadValue``."""
    return _test(read(_test_form(), data))


def _test(item: Any) -> TestReport:
    """Return a test, given as ``_test_form``."""
    notes = () if item.note is None else tuple(item.note.split(NOTE_SEPARATOR))
    record = Record(**{name: getattr(item, name) for name in _OF_RECORD}, notes=notes)
    return TestReport(**{name: getattr(item, name) for name in _OF_TEST}, record=record)


def document(environment: RunEnvironment, session: SessionReport, tests: Iterable[Plain]) -> Plain:
    """Return a whole report from ``tests`` that are already in JSON form."""
    return {
        "version": VERSION,
        "environment": environment.to_dict(),
        "session": session.to_dict(),
        "tests": list(tests),
    }


def report_json(report: RunReport) -> Plain:
    """Return a report in its JSON form, of exact builtin types."""
    return document(report.environment, report.session, map(entry_json, report.tests))


def entry_json(test: TestReport) -> Plain:
    """Return a test as it is in the report."""
    entry: Plain = {}
    for name in TestReport.__struct_fields__:
        if name == "record":
            entry |= _record_json(test.record)
        else:
            entry[name] = msgspec.to_builtins(getattr(test, name))
    if test.baseline is not None:
        entry["baseline"] = _baseline_json(entry["baseline"])
    if not test.steps:
        del entry["steps"]
    if test.cap is not None:
        del entry["cap"]["by"]
    for change in entry["changes"] or ():
        _change_json(change)
    return entry


_DEFAULT: Final = Difference("graph")
"""A change with only defaults."""


def _change_json(change: Plain) -> None:
    """Remove what a change does not say: an unknown place, and values that are the default."""
    change["where"] = change["where"] if any(change["where"].values()) else {}
    for name in ("cause", "reason", "id", "was", "unsure", "by"):
        if change[name] == getattr(_DEFAULT, name):
            del change[name]


# The keys that come first in a break and in eager code; the others follow as they are declared.
_BREAK: Final = ("layer", "id", "reason", "explanation", "hints", "count", "where")
_EAGER: Final = ("layer", "reason", "count", "where")
_LEFT_OUT: Final[Plain] = {
    "seconds": None,
    "owner": None,
    "raised": {},
    "caller": {},
    "through": "",
}
"""The keys of an item that are left out with this value, as most items have no other."""
_PLACES: Final = frozenset(
    field.name
    for form_of_item in (Break, Eager, Recompile, Graph, LineRuns)
    for field in structs.fields(form_of_item)
    if field.default == NOWHERE
)
"""The keys of an item that are one place, such as ``where`` and ``guard``."""


def _record_json(record: Record) -> Plain:
    entry = record.to_dict()
    for name in {*LISTS.values()}:
        for item in entry[name]:
            for key in _PLACES & item.keys():
                if not any(item[key].values()):
                    item[key] = {}
            for key, empty in _LEFT_OUT.items():
                if key in item and item[key] == empty:
                    del item[key]
    for item, graph in zip(entry["graph_list"], record.graph_list, strict=True):
        if NOWHERE in graph.stack:
            item["stack"] = [place if any(place.values()) else {} for place in item["stack"]]
    for name in ("graphs", "recompiles"):
        entry[name] = {layer: count for layer, count in entry[name].items() if count}
    entry["breaks"] = [_with_first(item, *_BREAK) for item in entry["breaks"]]
    entry["eager"] = [_with_first(item, *_EAGER) for item in entry["eager"]]
    entry |= {"ops": record.ops, "note": record.note}
    return {name: entry[name] for name in _test_form().__struct_fields__ if name in entry}


def _baseline_json(entry: Plain) -> Plain:
    """Remove the layer from places of Dynamo, which is the default, and empty optional keys."""
    for name in ("breaks", "eager"):
        for place in entry[name]:
            if place["layer"] == PLACES_LAYER:
                del place["layer"]
        entry[name] = [_with_first(place, "layer", "reason", "id") for place in entry[name]]
    for cause in entry["causes"]:
        for key in ("guard", "called"):
            if not cause[key]:
                del cause[key]
    if not entry["lines"]:
        del entry["lines"]
    return _with_first(entry, "profile", *COMPILERS, "graphs", "recompiles", "ops")


def _with_first(item: Plain, *keys: str) -> Plain:
    """Return the same mapping with these keys first, in this order."""
    return {key: item[key] for key in keys if key in item} | item


def write(path: Path, data: Plain) -> None:
    """Write the report in one step, so that a reader sees either the old or the new file.

    Raises ``OSError`` if it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # ``json.dumps`` writes ASCII only, since a lone surrogate in a test id cannot be written as
    # UTF-8. msgspec indents the text, but refuses the escape of a lone surrogate.
    text = json.dumps(data)
    try:
        text = msgspec.json.format(text, indent=1)
    except msgspec.DecodeError:
        text = json.dumps(data, indent=1)
    put(path, f"{text}\n".encode("ascii"))
