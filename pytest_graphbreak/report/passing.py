"""Changes in passing tests as lines: each place once, however many tests have it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pytest_graphbreak.judging.finding import MAY_BE_NEW, Finding, distinct_findings
from pytest_graphbreak.judging.findings import findings_of_changes
from pytest_graphbreak.judging.verdict import verdict_of
from pytest_graphbreak.model.differences import STRICT
from pytest_graphbreak.model.report import TestReport
from pytest_graphbreak.report.lines import general_lines
from pytest_graphbreak.report.root_causes import which_tests
from pytest_graphbreak.text.output import TextLine, plural

IN_FULL: Final = 10
"""The number of changes shown with source line and advice; the rest have what and where."""
MOST: Final = 100
"""The number of changes shown; with more, the rest are counted and accepting is not suggested."""


def changes(tests: Iterable[tuple[str, TestReport]]) -> list[Finding]:
    """Return the changes of passing tests, new ones first, then by number of tests.

    Each test comes with the name that it is listed by.
    """
    findings = distinct_findings(
        (
            (name, finding)
            for name, test in tests
            if test.verdict in STRICT and test.failed_by is None and not test.written
            for finding in findings_of_changes(verdict_of(test).changes, test.record)
            if finding.sign != MAY_BE_NEW
        ),
        lambda finding: finding.key,
    )
    return sorted(findings, key=lambda finding: (not finding.is_new, -len(finding.tests)))


def lines(findings: Sequence[Finding]) -> Iterator[TextLine]:
    """Yield the changes below a title, if there are any."""
    if not findings:
        return
    yield TextLine("What changed in tests that pass:", "title")
    several = len({name for finding in findings for name in finding.tests}) > 1
    for number, finding in enumerate(findings[:MOST]):
        shown = general_lines(finding)
        yield from shown if number < IN_FULL else shown[:2]
        if several:
            yield from which_tests(finding, f"in {plural(len(finding.tests), 'test')}")
    if len(findings) > MOST:
        left_out = plural(len(findings) - MOST, "more change")
        yield TextLine(f"... and {left_out} (the JSON report has them all)", indent=2)
