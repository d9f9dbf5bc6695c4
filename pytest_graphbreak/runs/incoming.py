"""Reads JSON reports that came from elsewhere: an artifact, a fork, a stranger.

Nothing in such a file is trusted. Its size is bounded, every value that is used
later has the type and the range that docs/reference/report.md gives, and what is
wrong is named with its place in the file. Keys that we do not know are dropped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from pytest_graphbreak.model.layers import BREAKING, COMPILERS, LAYERS, VERSIONS
from pytest_graphbreak.model.record import CACHED, Plain
from pytest_graphbreak.runs.containers import ReportFile, read, sources
from pytest_graphbreak.text.garbage import uncollected

VERSION: Final = 1
MOST_COUNT: Final = 10_000_000
MOST_SHARDS: Final = 10_000
"""Groups into which a run may be split."""
MOST_TESTS: Final = 250_000
"""Tests in all reports of one command; docs/reference/commands.md says what many cost."""
MOST_VALUES: Final = 8_000_000
"""Values in one report: 100 MiB of empty lists would take gigabytes of memory."""
MOST_PACKAGES: Final = 1000
MOST_SETTINGS: Final = 1000
LONGEST_NAME: Final = 4096
"""Characters of a node id or a file name; a longer one is refused."""
LONGEST_PROFILE: Final = 256
LONGEST_FACT: Final = 200
"""Characters of a version, a device, a platform; what is over is cut."""
LONGEST_TEXT: Final = 20_000
"""Characters of any other text (a reason, a line of source); what is over is cut."""
LONGEST_MESSAGE: Final = 200_000
"""Characters of what a failed test showed; what is over is cut."""
_CUT: Final = "..."

OUTCOMES: Final = ("passed", "failed", "skipped", "xfailed", "xpassed", "crashed")
VERDICTS: Final = ("error", "over", "lost", "new", "improved", "changed", "ok", "none")


class ReportError(ValueError):
    """A report that cannot be used. The message names the file, the place and the next step."""


@dataclass(frozen=True, slots=True)
class Report:
    """One report: ``name`` tells it apart, ``given`` is the path that was typed.

    They differ where a directory or an archive was named.
    """

    name: str
    environment: Plain
    session: Plain
    tests: list[Plain]
    given: str = ""

    @property
    def profile(self) -> str:
        """What counts are filed under; ``none`` for a log that was read, which says none."""
        return self.environment["profile"] or "none"

    @property
    def versions(self) -> dict[str, str]:
        """Those of the compilers that were there."""
        return {name: at for name in COMPILERS if (at := self.environment.get(name))}


def load(path: str | os.PathLike[str], *, counts_only: bool = False) -> Report:
    """Read one report. Raises ``ReportError`` for all that is not a report of version 1.

    ``counts_only`` leaves out what only people read, and its checks: stacks,
    explanations, recompiles one by one. It is the larger part of a report.
    """
    name = os.fspath(path)
    return _load(ReportFile(name, lambda: read(name)), name, counts_only=counts_only)


def _load(source: ReportFile, given: str, *, counts_only: bool) -> Report:
    name = source.name
    try:
        text = source.read()
        if text.count(b",") > MOST_VALUES:
            raise ReportError(f"{name}: it holds more than {MOST_VALUES:,} values; split the run")
        data = json.loads(text, parse_constant=_no_constant)
        del text
    except RecursionError:
        raise ReportError(f"{name}: not a report: nested too deeply") from None
    except ReportError:
        raise
    except (OSError, ValueError) as error:
        raise ReportError(f"{name}: cannot be read as a JSON report: {_words(error)}") from None
    return replace(parse(name, data, counts_only=counts_only), given=given)


def parse(name: str, data: object, *, counts_only: bool = False) -> Report:
    """A report from what JSON gave, under the name that messages use. Raises ``ReportError``."""
    try:
        return _report(name, data, _COUNTED if counts_only else _TEST)
    except _Fault as fault:
        raise ReportError(f"{name}: {fault.place or 'the report'}: {fault.message}") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)


class _Fault(Exception):
    """What is wrong, and where: ``place`` grows on the way out, like ``tests[3].graphs``."""

    def __init__(self, message: str, place: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.place = place

    def below(self, key: str) -> _Fault:
        place = self.place
        if place and not place.startswith("["):
            place = "." + place
        self.place = key + place
        return self


Check = Callable[[Any], Any]


def _text_up_to(most: int) -> Check:
    """Text, cut where it is longer than ``most`` characters."""

    def check(value: Any) -> str:
        if type(value) is not str:
            raise _Fault(f"{_kind(value)} where text is expected")
        return value if len(value) <= most else value[: most - len(_CUT)] + _CUT

    return check


_text = _text_up_to(LONGEST_TEXT)


def _name(value: Any) -> str:
    if type(value) is not str:
        raise _Fault(f"{_kind(value)} where text is expected")
    if not 0 < len(value) <= LONGEST_NAME:
        raise _Fault(f"a name has 1 to {LONGEST_NAME} characters, this one {len(value)}")
    return value


def _profile(value: Any) -> str:
    if len(_name(value)) > LONGEST_PROFILE or not value.isprintable():
        raise _Fault(f"a profile is printable text of at most {LONGEST_PROFILE} characters")
    return str(value)


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= MOST_COUNT:
        shown = value if type(value) is int and abs(value) < 10**12 else _kind(value)
        raise _Fault(f"{shown} is not a count")
    return value


def _shard(value: Any) -> int:
    if not 1 <= _count(value) <= MOST_SHARDS:
        raise _Fault(f"{value} is not one of at most {MOST_SHARDS:,} groups")
    return int(value)


def _kind(value: Any) -> str:
    kinds = {dict: "a mapping", list: "a list", str: "text", bool: "true or false", int: "a number"}
    return kinds.get(type(value), "null" if value is None else "a number")


def _one_of(allowed: Iterable[str]) -> Check:
    known = frozenset(allowed)

    def check(value: Any) -> str:
        if type(value) is not str or value not in known:
            shown = repr(value[:40]) if type(value) is str else _kind(value)
            raise _Fault(f"{shown} is not one of {', '.join(allowed)}")
        return value

    return check


def _maybe(check: Check) -> Check:
    return lambda value: None if value is None else check(value)


def _list_of(check: Check) -> Check:
    def checked(value: Any) -> list[Any]:
        if type(value) is not list:
            raise _Fault(f"{_kind(value)} where a list is expected")
        found = []
        for number, item in enumerate(value):
            try:
                found.append(check(item))
            except _Fault as fault:
                raise fault.below(f"[{number}]") from None
        return found

    return checked


def _mapping(value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise _Fault(f"{_kind(value)} where a mapping is expected")
    return value


def _map_of(keys: Iterable[str], check: Check) -> Check:
    """A mapping whose keys are among those given and whose values pass."""
    known = frozenset(keys)

    def checked(value: Any) -> dict[str, Any]:
        found = {}
        for key, item in _mapping(value).items():
            try:
                if key not in known:
                    raise _Fault(f"is not one of {', '.join(sorted(known))}")
                found[key] = check(item)
            except _Fault as fault:
                raise fault.below(key[:80]) from None
        return found

    return checked


def _held(value: Any) -> dict[str, int]:
    """How many operations functions hold, by the file and the name of each."""
    found = {}
    for name, count in _mapping(value).items():
        try:
            found[_text(name)] = _count(count)
        except _Fault as fault:
            raise fault.below(name[:80]) from None
    return found


def _object(**fields: tuple[Check, Any]) -> Check:
    """A mapping with these keys. Each has a check, and what it is where the key is missing."""
    # `from` is a word of Python, so it cannot be spelled as an argument. Most
    # values are text that needs no more than its type, which is quick to see.
    items = [
        (
            name.rstrip("_"),
            str if (check, default) in (_TEXT, _MAYBE_TEXT) else None,
            check,
            default,
        )
        for name, (check, default) in fields.items()
    ]

    def checked(value: Any) -> Plain:
        given = _mapping(value)
        found: Plain = {}
        for name, quick, check, default in items:
            if name in given:
                item = given[name]
                try:
                    is_fine = type(item) is quick and len(item) <= LONGEST_TEXT
                    found[name] = item if is_fine else check(item)
                except _Fault as fault:
                    raise fault.below(name) from None
            elif default is _NEEDED:
                raise _Fault("this key is missing").below(name)
            else:
                found[name] = default() if callable(default) else default
        return found

    return checked


_NEEDED: Final = object()

_TEXT, _MAYBE_TEXT = (_text, ""), (_maybe(_text), None)
_COUNTS = (_map_of(LAYERS, _count), dict)
_LAYER = (_one_of(LAYERS), _NEEDED)
_PLACE: Callable[[Any], Plain] = _object(file=_TEXT, function=_TEXT, line=(_count, 0), code=_TEXT)


def _where(value: Any) -> Plain:
    """A place, or ``{}`` (or null) where there is none. Equal places are one object."""
    if value in ({}, None):
        return {}
    try:
        return _shared(value["file"], value["function"], value["line"], value["code"])
    except (TypeError, KeyError):  # it is no place, or one without all keys
        return _PLACE(value)


@lru_cache(maxsize=100_000, typed=True)
def _shared(file: Any, function: Any, line: Any, code: Any) -> Plain:
    """Most of a report are the same few places: read once, they take a tenth of the memory."""
    return _PLACE({"file": file, "function": function, "line": line, "code": code})


_CORE = {
    "layer": _LAYER,
    "id": _MAYBE_TEXT,
    "reason": _TEXT,
    "count": (_count, 1),
    "where": (_where, dict),
}
_BREAK = _object(
    **_CORE,
    explanation=_TEXT,
    hints=(_list_of(_text), list),
    stack=(_list_of(_where), list),
)
_EAGER = _object(layer=_LAYER, reason=_TEXT, count=(_count, 1), where=(_where, dict))
_RECOMPILE = _object(
    layer=_LAYER,
    graph=_TEXT,
    reason=_TEXT,
    where=(_where, dict),
    stack=(_list_of(_where), list),
)
_HELD = (_held, dict)
_GRAPH = _object(
    layer=_LAYER,
    name=_TEXT,
    cause=_TEXT,
    ops=(_maybe(_count), None),
    inputs=(_maybe(_count), None),
    outputs=(_maybe(_count), None),
    hash=_MAYBE_TEXT,
    from_=(_list_of(_text), list),
    process=_MAYBE_TEXT,
    where=(_where, dict),
    reason=_TEXT,
    module=_MAYBE_TEXT,
    stack=(_list_of(_where), list),
    functions=_HELD,
    cached=(_maybe(_one_of(CACHED)), None),
)
_KNOWN = _object(
    layer=(_one_of(BREAKING), BREAKING[0]),
    reason=_MAYBE_TEXT,
    id=_MAYBE_TEXT,
    where=_TEXT,
    code=_TEXT,
    count=(_count, 1),
)
_CAUSE = _object(layer=_LAYER, cause=_TEXT, where=_TEXT, code=_TEXT, count=(_count, 1))
_BASELINE = _object(
    profile=_MAYBE_TEXT,
    **dict.fromkeys(COMPILERS, _MAYBE_TEXT),
    graphs=_COUNTS,
    recompiles=_COUNTS,
    ops=_COUNTS,
    breaks=(_list_of(_KNOWN), list),
    eager=(_list_of(_KNOWN), list),
    causes=(_list_of(_CAUSE), list),
    functions=_HELD,
)
_CAP = _object(
    every=(_maybe(_count), None),
    layers=_COUNTS,
    recompiles=(_maybe(_count), None),
    breaks=(_maybe(_count), None),
)


def _settings(value: Any) -> Plain:
    """Flags, numbers and text by the names of settings."""
    if len(_mapping(value)) > MOST_SETTINGS:
        raise _Fault(f"{len(value):,} settings are more than {MOST_SETTINGS:,}")
    fact = _text_up_to(LONGEST_FACT)
    found: Plain = {}
    for name, item in value.items():
        try:
            plain = item is None or type(item) in (bool, int, float)
            found[fact(name)] = item if plain else fact(item)
        except _Fault as fault:
            raise fault.below(str(name)[:80]) from None
    return found


_JUDGED = {
    "nodeid": (_name, _NEEDED),
    "outcome": (_one_of(OUTCOMES), _NEEDED),
    "failed_by": (_maybe(_one_of(("gate", "test"))), None),
    "verdict": (_one_of(VERDICTS), "none"),
    "attempts": (_count, 1),
    "layers": (_list_of(_one_of(LAYERS)), list),
    "graphs": _COUNTS,
    "recompiles": _COUNTS,
    "ops": _COUNTS,
    "frames": (_object(attempted=(_count, 0), compiled=(_count, 0)), dict),
    "eager": (_list_of(_EAGER), list),
    "errors": (_list_of(_text), list),
    "setup": (_object(graphs=_COUNTS), dict),
    "note": _MAYBE_TEXT,
    "settings": (_settings, dict),
    "leaks": (_settings, dict),
    "baseline": (_maybe(_BASELINE), None),
    "budget": (_maybe(_object(graphs=_COUNTS)), None),
    "cap": (_maybe(_CAP), None),
    "ungated": _MAYBE_TEXT,
    "foreign": _MAYBE_TEXT,
    "message": (_maybe(_text_up_to(LONGEST_MESSAGE)), None),
}
_TEST = _object(
    **_JUDGED,
    breaks=(_list_of(_BREAK), list),
    recompile_list=(_list_of(_RECOMPILE), list),
    graph_list=(_list_of(_GRAPH), list),
)
_FACT = (_maybe(_text_up_to(LONGEST_FACT)), None)


def _versions(value: Any) -> Plain:
    """Versions by the names of packages."""
    if len(_mapping(value)) > MOST_PACKAGES:
        raise _Fault(f"{len(value):,} packages are more than {MOST_PACKAGES:,}")
    fact = _text_up_to(LONGEST_FACT)
    found: Plain = {}
    for name, version in value.items():
        try:
            found[fact(name)] = fact(version)
        except _Fault as fault:
            raise fault.below(str(name)[:80]) from None
    return found


_COUNTED = _object(
    **_JUDGED,
    breaks=(_list_of(_object(**_CORE)), list),
    graph_list=(
        _list_of(
            _object(
                layer=_LAYER,
                cause=_TEXT,
                ops=(_maybe(_count), None),
                from_=(_list_of(_text), list),
                where=(_where, dict),
                functions=_HELD,
            )
        ),
        list,
    ),
)
_ENVIRONMENT = _object(
    profile=(_maybe(_profile), None),
    device=_FACT,
    arch=_FACT,
    **dict.fromkeys(VERSIONS, _FACT),
    python=_FACT,
    platform=_FACT,
    packages=(_versions, dict),
)
_NAMES = (_list_of(_name), list)
_SESSION = _object(
    exit=(_maybe(_count), None),
    collected=(_maybe(_count), None),
    deselected=(_count, 0),
    complete_files=_NAMES,
    collected_whole=_NAMES,
    deselected_tests=_NAMES,
    unmeasured=_NAMES,
    stale=_NAMES,
    shard=(_maybe(_object(group=(_shard, _NEEDED), of=(_shard, _NEEDED))), None),
)


def _observed(test: Plain) -> Plain:
    """The test itself, if it counts nothing on a layer that it did not observe."""
    for key in ("graphs", "recompiles"):
        for layer in test[key]:
            if test[key][layer] and layer not in test["layers"]:
                raise _Fault("is counted, but `layers` says it was not observed").below(
                    f"{key}.{layer}"
                )
    return test


def _report(name: str, value: Any, test: Check) -> Report:
    data = _mapping(value)
    version = data.get("version")
    if type(version) is not int or version != VERSION:
        shown = version if type(version) is int and abs(version) < 10**6 else _kind(version)
        raise _Fault(
            f"{shown} where {VERSION} is expected; is this a file that "
            "--graph-budget-report wrote, and this graphbreak new enough?"
        ).below("version")
    read = _object(
        environment=(_ENVIRONMENT, _NEEDED),
        session=(_SESSION, lambda: _SESSION({})),
        tests=(_list_of(lambda item: _observed(test(item))), _NEEDED),
    )(data)
    return Report(name, read["environment"], read["session"], read["tests"])


def load_all(
    paths: Iterable[str], *, counts_only: bool = False, shown: str | None = None
) -> list[Report]:
    """All reports, in order; a directory and a zip archive stand for all that are in them.

    ``shown`` takes the place of a path in names. Raises ``ReportError`` that
    names every report that cannot be used.
    """
    reports: list[Report] = []
    faults: list[str] = []
    with uncollected():
        for path in paths:
            try:
                for source in sources(path, shown):
                    try:
                        reports.append(_load(source, path, counts_only=counts_only))
                    except ReportError as error:
                        faults.append(str(error))
            except OSError as error:
                faults.append(f"{shown or path}: cannot be read: {_words(error)}")
    if faults:
        raise ReportError("\n".join(faults))
    tests = sum(len(report.tests) for report in reports)
    if tests > MOST_TESTS:
        raise ReportError(
            f"{tests:,} tests are more than the {MOST_TESTS:,} that one command takes: "
            "give it the reports of one profile, or of some files, at a time"
        )
    return reports


def by_profile(reports: Iterable[Report]) -> Mapping[str, list[Report]]:
    """Reports under their profiles, both in order of appearance."""
    found: dict[str, list[Report]] = {}
    for report in reports:
        found.setdefault(report.profile, []).append(report)
    return found
