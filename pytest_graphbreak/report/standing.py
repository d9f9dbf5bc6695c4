"""The tests that a report shows: their runs, put together of shards, and where each test stands.

A test stands for a reader by its verdict or what replaces it, and has its counts before and now on
one line. Markdown, HTML and the console show the same tests in the same order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pytest_graphbreak.judging.verdict import verdict_of
from pytest_graphbreak.model.differences import BY_VERDICT, FAILING, VERDICTS
from pytest_graphbreak.model.layers import JUDGED, LAYERS
from pytest_graphbreak.model.report import RunReport, TestReport
from pytest_graphbreak.report.counts import moved_count
from pytest_graphbreak.text.numbers import noun

REPORTED: Final = "new (reported)"
"""A test without a baseline that passed: ``graph_budget_new = report``."""
UNJUDGED: Final = "not judged"
"""A test that compiled something in a run without the gate; its ``none`` is no verdict."""
_BESIDE: Final = {"new": (REPORTED,), "ok": (UNJUDGED,)}
"""What comes right after a verdict in that order."""
ORDER: Final = tuple(chain(*((name, *_BESIDE.get(name, ())) for name in VERDICTS)))
"""All standings of tests, the most urgent first: verdicts, or what replaces them."""
NAMED: Final = ORDER[: ORDER.index("ok")]
"""The standings that a report lists by test."""


def standing(test: TestReport) -> str:
    """Return the standing of a test for a reader: its verdict, or what replaces it."""
    verdict = test.verdict
    if verdict == "new" and test.failed_by != "gate":
        # Of a test marked xfail nothing is recorded while it fails, and nothing is missing.
        return REPORTED if test.outcome == "passed" else "none"
    if verdict == "none" and test.outcome in ("passed", "xpassed"):
        record = test.record
        if (record.graphs or record.breaks or record.eager) and test.ungated is None:
            return UNJUDGED
    return verdict


def is_red(test: TestReport) -> bool:
    """Return whether a report shows a test as failed by the gate, and why."""
    return standing(test) in FAILING or test.failed_by == "gate"


def acceptable(test: TestReport) -> bool:
    """Return whether an update of the baseline accepts any of what a test counted."""
    return BY_VERDICT[test.verdict].accepted and verdict_of(test).acceptable


def tests_without_judgement(tests: Iterable[TestReport]) -> list[TestReport]:
    """Return the tests that made something and were not judged."""
    return [test for test in tests if standing(test) == UNJUDGED]


def weight(test: TestReport) -> tuple[int, int, int, str]:
    """Return the sort key of a test: urgent verdicts first, then growth, then size, then name."""
    size = max(test.record.graphs.values(), default=0)
    return ORDER.index(standing(test)), -abs(growth(test)), -size, test.nodeid


UNGATED = "ungated"
"""The word that is counted instead of a verdict if a test was taken out of the gate."""


def count_standings(tests: Iterable[TestReport]) -> dict[str, int]:
    """Return the number of tests by standing, in the order of ``ORDER``, without zeros."""
    standings = Counter(standing(test) if test.ungated is None else UNGATED for test in tests)
    return {name: standings[name] for name in (*ORDER, UNGATED) if standings[name]}


def standing_words(tests: Iterable[TestReport], default: str = "none") -> str:
    """Return the number of tests by standing: ``3 over, 20 ok``; ``default`` without tests."""
    counts = count_standings(tests)
    return ", ".join(f"{count:,} {name}" for name, count in counts.items()) or default


# The counts of a test of a report, before and now.


class Move(Struct, frozen=True):
    """A count of one layer, before (None if unknown) and now."""

    layer: str
    was: int | None
    measured: int

    @property
    def growth(self) -> int:
        return 0 if self.was is None else self.measured - self.was

    def __str__(self) -> str:
        return f"{self.layer} {self.counts}"

    @property
    def counts(self) -> str:
        return (
            str(self.measured)
            if self.was in (None, self.measured)
            else f"{self.was} -> {self.measured}"
        )


def moves(test: TestReport) -> list[Move]:
    """Return every observed layer that has, had or may have graphs, in the order of ``LAYERS``.

    The earlier count of a layer without a limit is unknown.
    """
    return [move for move in _moves(test) if move.layer in test.record.layers]


def _moves(test: TestReport) -> Iterator[Move]:
    allowed = _limits(test) or {}
    for layer in LAYERS:
        before, after = allowed.get(layer), test.record.graphs.get(layer, 0)
        if before or after:
            yield Move(layer, before, after)


def _limits(test: TestReport) -> Mapping[str, int] | None:
    """Return the graphs that the test may make, by its baseline or else its marker."""
    baseline = None if test.baseline is None else test.baseline.graphs
    if baseline is None and test.budget is None:
        return None
    return {**(test.budget.graphs if test.budget else {}), **(baseline or {})}


def row(test: TestReport) -> str:
    """Return one test on one line: its changed counts, and its number of breaks."""
    is_limited = _limits(test) is not None
    moves = []
    for move in _moves(test):
        if move.was is not None:
            moves.append(str(move))
        elif not is_limited:  # it has no baseline yet
            moves.append(str(replace(move, was=0) if move.layer in JUDGED else move))
    places = len(test.record.breaks)
    if places:
        moves.append(f"{places} {noun(places, 'graph break')}")
    moves += moved_totals(test)
    return f"{test.nodeid}   {', '.join(moves)}".rstrip()


def moved_totals(test: TestReport) -> list[str]:
    """Return ``captured operations 28 -> 17`` of a passing test, and runs and reads that grew.

    A test in which a count fell has none, since a removed recompile repeats no operations.
    """
    if test.verdict != "changed":
        return []
    totals = [change for change in test.changes or () if change.total]
    operations = dict.fromkeys(
        (total.before, total.after) for total in totals if total.kind == "ops"
    )
    runs = [total for total in totals if total.kind in ("execution", "read") and total.growth > 0]
    return [
        *(f"captured operations {before} -> {after}" for before, after in operations),
        *map(moved_count, runs),
    ]


def growth(test: TestReport) -> int:
    """Return the largest growth of any layer in graphs; it is negative if all shrank."""
    return max((move.growth for move in moves(test)), default=0)


# Runs.


class ProfileRun(Struct, frozen=True):
    """Reports of one run: the shards of one profile. ``label`` is its name for a reader."""

    label: str
    reports: tuple[RunReport, ...]

    @property
    def profile(self) -> str:
        return self.reports[0].profile

    @property
    def versions(self) -> dict[str, str]:
        return self.reports[0].versions

    @property
    def tests(self) -> list[TestReport]:
        return [test for report in self.reports for test in report.tests]

    @property
    def unmeasured(self) -> list[str]:
        return list(dict.fromkeys(chain(*(report.session.unmeasured for report in self.reports))))

    @property
    def stale(self) -> list[str]:
        return list(dict.fromkeys(chain(*(report.session.stale for report in self.reports))))

    @property
    def ungated(self) -> list[str]:
        """The tests that were taken out of the gate, with the reasons."""
        return [
            f"{test.nodeid}   {test.ungated or 'no reason given'}"
            for test in self.tests
            if test.ungated is not None
        ]


def test_name(test: TestReport, run: ProfileRun, among: Sequence[ProfileRun]) -> str:
    """Return the name of a test: its node id, with the run if there are several."""
    return test.nodeid if len(among) == 1 else f"{test.nodeid}   on {run.label}"


def runs(reports: Iterable[RunReport]) -> list[ProfileRun]:
    """Combine shards.

    Reports of one profile and of the same versions that share no test are shards of one run; a
    report that repeats a test of that run is a separate run (another branch, a retry).
    """
    groups: list[tuple[set[str], list[RunReport]]] = []
    for report in reports:
        names = {test.nodeid for test in report.tests}
        for names_of_group, group in groups:
            first = group[0]
            is_same = (first.profile, first.versions) == (report.profile, report.versions)
            if is_same and not names_of_group & names:
                names_of_group |= names
                group.append(report)
                break
        else:
            groups.append((names, [report]))
    labels = _labels([group for _, group in groups])
    return [
        ProfileRun(label, tuple(group)) for label, (_, group) in zip(labels, groups, strict=True)
    ]


def _labels(groups: Sequence[Sequence[RunReport]]) -> list[str]:
    """Return the profile of each run, with a file name if several runs share the profile."""
    shared = Counter(group[0].profile for group in groups)
    return [
        group[0].profile
        if shared[group[0].profile] == 1
        else f"{group[0].profile} ({group[0].name})"
        for group in groups
    ]


class CheckNotes(Struct, frozen=True):
    """The notes on a verdict besides its tests.

    ``no_verdict`` says why there is none, in words of this package; ``problems`` are those of
    reports, in anybody's words. ``missing`` was collected and ran nowhere. ``accept`` accepts the
    counts, if a command does in any checkout.
    """

    no_verdict: str = ""
    problems: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    accept: str = ""


NOTHING: Final = CheckNotes()
