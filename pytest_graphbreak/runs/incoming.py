"""Reads JSON reports that came from elsewhere: an artifact, a fork, an untrusted source.

Nothing in such a file is trusted. Its size is bounded here, and every value that is used later has
the type and the range that ``model.report`` gives it; what is wrong is named with its place in the
file. Keys that we do not know are dropped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from pytest_graphbreak.model.forms import BadValue
from pytest_graphbreak.model.json import report_of
from pytest_graphbreak.model.report import RunReport
from pytest_graphbreak.runs.containers import ReportFile, read, sources
from pytest_graphbreak.text.errors import UserError
from pytest_graphbreak.text.garbage import uncollected

MOST_TESTS: Final = 250_000
"""Tests in all reports of one command; docs/reference/commands.md says what many cost."""
MOST_VALUES: Final = 8_000_000
"""Values in one report: 100 MiB of empty lists would take gigabytes of memory."""


class ReportError(UserError):
    """A report that cannot be used. The message names the file, the place and the next step."""


def load(path: str | os.PathLike[str]) -> RunReport:
    """Read one report. Raises ``ReportError`` for all that is not a report of version 1."""
    name = os.fspath(path)
    return _load(ReportFile(name, lambda: read(name)), name)


def _load(source: ReportFile, given: str) -> RunReport:
    name = source.name
    try:
        text = source.read()
        if text.count(b",") > MOST_VALUES:
            raise ReportError(f"{name}: it holds more than {MOST_VALUES:,} values; split the run")
        check_keys(text)
        return replace(parse(name, text), given=given)
    except RecursionError:
        raise ReportError(f"{name}: not a report: nested too deeply") from None
    except ReportError:
        raise
    except (OSError, ValueError) as error:
        raise ReportError(f"{name}: cannot be read as a JSON report: {_words(error)}") from None


def check_keys(text: bytes) -> None:
    """Refuse JSON in which a mapping has one key twice.

    Decoders keep the last value and say nothing (RFC 8259 leaves it open), so a report that was
    merged by hand or tampered with would be judged by half of what it says. Raises ``ValueError``
    that names the first key that is twice, and what ``json.loads`` raises for text that is no
    JSON. Nothing is built, so this takes half as long as that.
    """
    json.loads(text, object_pairs_hook=_check_pairs)


def _check_pairs(pairs: list[tuple[str, Any]]) -> None:
    if len({key for key, _ in pairs}) == len(pairs):
        return
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise ValueError(f"the key {key[:80]!r} is twice in one mapping{_of_test(pairs)}")
        seen.add(key)


def _of_test(pairs: Iterable[tuple[str, Any]]) -> str:
    """Of which test the mapping is, where it says so."""
    named = [value for key, value in pairs if key == "nodeid" and isinstance(value, str)]
    return f", of {named[0][:200]}" if named else ""


def parse(name: str, data: object) -> RunReport:
    """A report from JSON as bytes, or from what JSON gave; messages call it ``name``.

    Raises ``ReportError`` for a value that no report has, and ``ValueError`` for no JSON.
    """
    try:
        return report_of(data, name)
    except BadValue as fault:
        raise ReportError(
            f"{name}: {fault.place or 'the report'}: {fault.message}; is this a file that "
            "--graph-budget-report wrote, and this graphbreak new enough?"
        ) from None


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)


def load_all(paths: Iterable[str], shown: str | None = None) -> list[RunReport]:
    """All reports, in order; a directory and a zip archive give all that are in them.

    ``shown`` takes the place of a path in names. Raises ``ReportError`` that
    names every report that cannot be used.
    """
    reports: list[RunReport] = []
    faults: list[str] = []
    with uncollected():
        for path in paths:
            try:
                for source in sources(path, shown):
                    try:
                        reports.append(_load(source, path))
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


def by_profile(reports: Iterable[RunReport]) -> Mapping[str, list[RunReport]]:
    """Reports under their profiles, both in order of appearance."""
    found: dict[str, list[RunReport]] = {}
    for report in reports:
        found.setdefault(report.profile, []).append(report)
    return found
