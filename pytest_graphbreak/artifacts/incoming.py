"""Reads JSON reports from elsewhere: of an artifact, a fork, any untrusted source.

``containers`` says which files a path means, and bounds their sizes. Here a file becomes a
``RunReport``, or a ``ReportError`` that names the file and the place in it: every value that is
used later has the type and the range that ``model.report`` requires. Unknown keys are dropped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pytest_graphbreak.artifacts.containers import ReportFile, report_files
from pytest_graphbreak.model.forms import BadValue
from pytest_graphbreak.model.json import report_of
from pytest_graphbreak.model.report import RunReport
from pytest_graphbreak.text.errors import UserError, reason
from pytest_graphbreak.text.files import REPORT, without_collector

MOST_TESTS: Final = 250_000
"""The number of tests in all reports of a command; docs/reference/commands.md has the cost."""
MOST_VALUES: Final = 8_000_000
"""The number of values in a report: 100 MiB of empty lists would take gigabytes of memory."""


class ReportError(UserError):
    """Raised if a report cannot be used.

    The message names the file, the place and the next step.
    """


def load_all(
    paths: Iterable[str], shown: str | None = None, note: Callable[[str], object] = str
) -> list[RunReport]:
    """Return all reports, in order, including all those in directories and zip archives.

    ``shown`` replaces a path in names, as ``run 123`` that of artifacts which were downloaded into
    a temporary directory. A JSON file of another program in a directory or an archive
    is skipped, and ``note`` is called with a line about it. Raises ``ReportError`` that names every
    report that cannot be used.
    """
    reports: list[RunReport] = []
    faults: list[str] = []
    with without_collector():
        for path in paths:
            below = _load_below(path, shown)
            reports += below.reports
            faults += below.faults
            if below.reports:
                for name in below.foreign:
                    note(f"{name} is skipped: it is no report of --graph-budget-report")
            else:  # no report is among them, so one of these was meant
                faults += below.foreign.values()
    if faults:
        raise ReportError("\n".join(faults))
    tests = sum(len(report.tests) for report in reports)
    if tests > MOST_TESTS:
        raise ReportError(
            f"{tests:,} tests are more than the {MOST_TESTS:,} that one command takes: "
            "give it the reports of one profile, or of some files, at a time"
        )
    return reports


class _Below(Struct):
    """What is in one path: reports, and why other files are none.

    ``foreign``, by name: JSON files of other programs, which CI may keep beside reports.
    ``faults``: reports that cannot be used, or the path itself.
    """

    reports: list[RunReport] = []
    foreign: dict[str, str] = {}
    faults: list[str] = []


def _load_below(path: str, shown: str | None) -> _Below:
    below = _Below()
    try:
        for file in report_files(path, shown):
            try:
                below.reports.append(_load(file, path))
            except ReportError as error:
                if file.name != (shown or path) and _is_foreign(file):
                    below.foreign[file.name] = str(error)
                else:
                    below.faults.append(str(error))
    except OSError as error:
        fault = f"{shown or path}: cannot be read: {reason(error)}"
        return _Below(faults=[*below.faults, fault])
    return below


def _load(file: ReportFile, path: str) -> RunReport:
    """Return the report in a file of ``path``, which it names as the way to it."""
    name = file.name
    try:
        text = file.read()
        if _has_too_many_values(text):
            raise ReportError(f"{name}: it holds more than {MOST_VALUES:,} values; split the run")
        return replace(parse(name, text), path=path)
    except RecursionError:
        raise ReportError(f"{name}: not a report: nested too deeply") from None
    except ReportError:
        raise
    except (OSError, ValueError) as error:
        raise ReportError(f"{name}: cannot be read as a JSON report: {reason(error)}") from None


def parse(name: str, data: object) -> RunReport:
    """Return a report from JSON bytes, or from decoded JSON; messages call it ``name``.

    Raises ``ReportError`` for a value that no report has, and ``ValueError`` for text that is not
    JSON.
    """
    try:
        return report_of(data, name)
    except BadValue as fault:
        raise ReportError(
            f"{name}: {fault.place or 'the report'}: {fault.message}; is this a file that "
            "--graph-budget-report wrote, and this graphbreak new enough?"
        ) from None


def _is_foreign(file: ReportFile) -> bool:
    """Return whether a file that is no report is complete JSON without the keys of a report."""
    try:
        text = file.read()
        if _has_too_many_values(text):  # a trace, such as that of a profiler; it is not parsed
            return not REPORT.match(text)
        data = json.loads(text)
    except (OSError, ValueError, RecursionError):
        return False
    return not (isinstance(data, dict) and {"environment", "session", "tests"} <= data.keys())


def _has_too_many_values(text: bytes) -> bool:
    """Return whether there are more commas than a report has values, about one for each."""
    return text.count(b",") > MOST_VALUES
