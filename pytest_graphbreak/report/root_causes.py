"""What many tests have in common, each finding once, with the names of the tests that have it.

``root_causes`` are those of failed tests: 220 tests broken by one ``print`` are one finding.
``passing_changes``, below, are what changed in tests that pass. Both take tests as they are in a
report, each with its name in lists; the summary of a run, ``check``, the comment, the page and the
annotations show the result.

A ``Finding`` is what happened at one place (``judging.finding``). Of a failed test, ``_causes``
chooses those that say why it failed, one for each place. Where no place is known, a finding without
one says what the counts say: ``fewer captured operations``. ``distinct_findings`` then joins the
findings of all tests by their place.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pytest_graphbreak.judging.finding import (
    GONE,
    MAY_BE_NEW,
    NEW,
    Finding,
    distinct_findings,
)
from pytest_graphbreak.judging.findings import (
    NEW_ENTRY,
    findings_of_changes,
    findings_of_failure,
    losses,
)
from pytest_graphbreak.judging.verdict import Verdict, verdict_of
from pytest_graphbreak.model.differences import STRICT
from pytest_graphbreak.model.items import Break
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.report import TestReport
from pytest_graphbreak.report.counts import TOTAL_NAMES
from pytest_graphbreak.report.lines import detail, general_lines
from pytest_graphbreak.report.standing import growth, weight
from pytest_graphbreak.text.numbers import plural
from pytest_graphbreak.text.output import BLANK, TextLine

MOST: Final = 10
"""The number of causes that are shown on a terminal; the rest are counted."""


class RootCauses(Struct, frozen=True):
    """The causes of failed tests: ``places`` in the source, and causes ``without`` a place.

    The causes of most tests come first. A test with two places is listed at both, and counted once
    in ``red``, the number of failed tests, and in ``explained``, the number of those with a place.
    """

    places: tuple[Finding, ...] = ()
    without: tuple[Finding, ...] = ()
    red: int = 0
    explained: int = 0

    @property
    def findings(self) -> tuple[Finding, ...]:
        return (*self.places, *self.without)

    @property
    def firsts(self) -> tuple[str, ...]:
        """The first test of each cause; their failures explain all of the others."""
        return tuple(dict.fromkeys(cause.tests[0] for cause in self.findings))


def by_nodeid(tests: Iterable[TestReport]) -> Iterator[tuple[str, TestReport]]:
    """Return the tests of one run with the names that they are listed by."""
    return ((test.nodeid, test) for test in tests)


def root_causes(tests: Iterable[tuple[str, TestReport]]) -> RootCauses:
    """Return the causes of those tests that failed; each test comes with its name in lists."""
    failed = [pair for pair in tests if pair[1].failed_by == "gate"]
    urgent_first = sorted(failed, key=lambda pair: weight(pair[1]))
    causes = distinct_findings(
        ((name, cause) for name, test in urgent_first for cause in _causes(test)),
        lambda cause: cause.place_key,
    )
    causes.sort(key=lambda cause: (-len(cause.tests), -cause.growth))
    places = tuple(cause for cause in causes if cause.where.file)
    return RootCauses(
        places=places,
        without=tuple(cause for cause in causes if not cause.where.file),
        red=len({name for name, _ in failed}),
        explained=len({name for cause in places for name in cause.tests}),
    )


def headline(causes: RootCauses) -> str:
    """Return ``2 places explain 218 of 220 red tests``, or an empty string without places."""
    if not causes.places:
        return ""
    places = plural(len(causes.places), "place")
    verb = "explains" if len(causes.places) == 1 else "explain"
    of = "" if causes.explained == causes.red else f"{causes.explained:,} of "
    return f"{places} {verb} {of}{plural(causes.red, 'red test')}"


def root_cause_lines(causes: RootCauses) -> Iterator[TextLine]:
    """Yield the lines of all causes and a blank line, for a terminal.

    There are none if no place explains a test, or if only one test failed: its failure is complete.
    """
    if causes.red < 2 or not causes.places:
        return
    yield TextLine(headline(causes), "title")
    for cause in causes.findings[:MOST]:
        yield from cause_lines(cause)
    if len(causes.findings) > MOST:
        yield TextLine(f"... and {plural(len(causes.findings) - MOST, 'more cause')}", indent=2)
    yield BLANK


def cause_lines(cause: Finding) -> list[TextLine]:
    """Return one cause: what, where, what to try, how many tests and graphs, the first test."""
    which = "the one that grew most" if cause.growth else "one of them"
    return [*general_lines(cause), *which_tests(cause, extent(cause), which)]


def which_tests(finding: Finding, words: str, which: str = "one of them") -> list[TextLine]:
    """Return how many tests have a finding, and the first of them."""
    end = f"; {which}" if len(finding.tests) > 1 else ""
    return [detail(f"{words}{end}:"), detail(finding.tests[0], 4)]


def extent(cause: Finding) -> str:
    """Return the extent of a cause: ``in 218 tests, which make 436 graphs more``."""
    words = f"in {plural(len(cause.tests), 'test')}"
    if cause.growth:
        makes = "which makes" if len(cause.tests) == 1 else "which make"
        words += f", {makes} {plural(cause.growth, 'graph')} more"
    return words


def keys_of_causes(test: TestReport) -> list[Hashable]:
    """Return a key of each cause of a failed test; none if a cause has no place.

    ``suite.session`` cuts a failure whose causes were all shown for earlier tests. A place that is
    new in one test and gone in another is shown for both.
    """
    causes = [*_causes(test)]
    is_placed = all(cause.where.file for cause in causes)
    return [(cause.is_new, cause.place_key) for cause in causes] if is_placed else []


def _causes(test: TestReport) -> Iterator[Finding]:
    """Yield why one test failed: of each place the first finding."""
    first_at: dict[Hashable, Finding] = {}
    for cause in _test_findings(test):
        first_at.setdefault(cause.place_key, cause)
    for cause in first_at.values():
        graphs = _graphs_of(cause, max(growth(test), 0), is_alone=len(first_at) == 1)
        yield replace(cause, growth=graphs)


def _graphs_of(cause: Finding, grown: int, *, is_alone: bool) -> int:
    """Return how many graphs more a cause makes, of those by which its test has ``grown``.

    The graphs after one of several breaks are not known to be its own.
    """
    if cause.kind in ("eager", "execution", "read"):
        return 0
    if is_alone:
        return grown
    return 0 if cause.is_of(Break) else min(len(cause.items), grown)


def _test_findings(test: TestReport) -> list[Finding]:
    """Return why one test failed, by its verdict: an error, no baseline, a loss, what is new."""
    record, verdict = test.record, verdict_of(test)
    if verdict.name == "error":
        error = next(iter(record.errors), "the reason is not known")
        return [_without_place(f"could not see: {error}")]
    if verdict.name == "new":
        return [_without_place("no baseline")]
    findings = findings_of_failure(verdict, record)
    if verdict.name == "lost" and (lost := losses(verdict, record)):
        return lost
    return _new(findings) or [_without_place(_counts_only(verdict, record))]


def _without_place(words: str) -> Finding:
    """Return a cause without a place; it is not ``is_new``, since nothing new was seen."""
    return Finding(GONE, "other", reason=words)


def _new(findings: Iterable[Finding]) -> list[Finding]:
    """Return what a test's failure reports as new and separately, breaks first.

    Of several functions of which any may be new, none is named. A single one is new.
    """
    new = [finding for finding in findings if finding.is_new]
    new.sort(key=lambda finding: finding.is_entry)  # a break tells more than an entry
    if sum(finding.is_entry for finding in new) > 1:
        return [finding for finding in new if finding.sign != MAY_BE_NEW]
    return [*map(_as_new, new)]


def _as_new(finding: Finding) -> Finding:
    if finding.sign != MAY_BE_NEW:
        return finding
    return replace(finding, sign=NEW, reason=finding.reason or NEW_ENTRY, aside="")


def _counts_only(verdict: Verdict, record: Record) -> str:
    """Return what can be said of a test that failed only because of its counts."""
    if verdict.empties_a_layer:
        if record.frames.attempted:
            return "no tensor operation was found to compile"
        return "nothing was compiled"
    for total in verdict.worse:
        if total.kind == "ops":
            continue
        layer = f"{total.layer} " if total.layer else ""
        what = TOTAL_NAMES.get(total.kind, total.kind)
        return f"{'more' if total.growth > 0 else 'fewer'} {layer}{what}, no place is known"
    if verdict.name == "lost":
        return "fewer captured operations"
    return f"{verdict.name}: another baseline would hold"


# What changed in tests that pass.

IN_FULL: Final = 10
"""The number of changes shown with source line and advice; the rest have what and where."""
MOST_CHANGES: Final = 100
"""The number of changes shown; with more, the rest are counted and accepting is not suggested."""


def passing_changes(tests: Iterable[tuple[str, TestReport]]) -> list[Finding]:
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


def passing_lines(findings: Sequence[Finding]) -> Iterator[TextLine]:
    """Yield the changes below a title, if there are any."""
    if not findings:
        return
    yield TextLine("What changed in tests that pass:", "title")
    several = len({name for finding in findings for name in finding.tests}) > 1
    for number, finding in enumerate(findings[:MOST_CHANGES]):
        shown = general_lines(finding)
        yield from shown if number < IN_FULL else shown[:2]
        if several:
            yield from which_tests(finding, f"in {plural(len(finding.tests), 'test')}")
    if len(findings) > MOST_CHANGES:
        left_out = plural(len(findings) - MOST_CHANGES, "more change")
        yield TextLine(f"... and {left_out} (the JSON report has them all)", indent=2)
