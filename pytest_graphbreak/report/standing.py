"""The tests of a report as lists of them show each: its standing, its counts, its line, its order.

A standing is the verdict, or what a reader is told in its place: ``not judged``. Markdown, HTML and
the console take their tests, and the order of these, from here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pytest_graphbreak.judging.verdict import verdict_of
from pytest_graphbreak.model.differences import BY_VERDICT, FAILING, VERDICTS
from pytest_graphbreak.model.layers import JUDGED, LAYERS
from pytest_graphbreak.model.report import TestReport
from pytest_graphbreak.report.counts import moved_count
from pytest_graphbreak.text.numbers import noun

REPORTED: Final = "new (reported)"
"""A test without a baseline that passed: ``graph_budget_new = report``."""
UNJUDGED: Final = "not judged"
"""A test that compiled something in a run without the gate; its ``none`` is no verdict."""
_BESIDE: Final = {"new": (REPORTED,), "ok": (UNJUDGED,)}
"""What comes right after a verdict in ``ORDER``."""
ORDER: Final = tuple(chain(*((name, *_BESIDE.get(name, ())) for name in VERDICTS)))
"""All standings of tests, the most urgent first: verdicts, or what replaces them."""
NAMED: Final = ORDER[: ORDER.index("ok")]
"""The standings that a report lists by test."""


def standing(test: TestReport) -> str:
    """Return the standing of a test for a reader: its verdict, or what replaces it.

    ::

        new, and the gate did not fail it    ``REPORTED`` if it passed; none if it failed by itself
                                             or is marked xfail, when nothing is missing
        none, but it compiled something      ``UNJUDGED`` if it passed and is not ungated
        any other verdict                    the verdict
    """
    verdict = test.verdict
    if verdict == "new" and test.failed_by != "gate":
        return REPORTED if test.outcome == "passed" else "none"
    if verdict == "none" and test.outcome in ("passed", "xpassed"):
        record = test.record
        if (record.graphs or record.breaks or record.eager) and test.ungated is None:
            return UNJUDGED
    return verdict


def is_red(test: TestReport) -> bool:
    """Return whether a report shows a test as failed by the gate, and why."""
    return standing(test) in FAILING or test.failed_by == "gate"


def is_excused(test: TestReport) -> bool:
    """Return whether a test is beyond its budget and does not fail: it is marked xfail."""
    return standing(test) in FAILING and test.outcome in ("xfailed", "xpassed")


def limits_in_code(tests: Iterable[TestReport]) -> str:
    """Return which limits in the code tests exceed, in words; an update raises none of these."""
    exceeded = [
        "limits of the blocks" if test.block else "caps of the markers"
        for test in tests
        if test.block or verdict_of(test).by_marker
    ]
    return " and the ".join(sorted({*exceeded}))


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


# The counts of a test, before and now.


class Move(Struct, frozen=True):
    """The graphs of one layer: as many as a test may make (None if nobody limits it), and now."""

    layer: str
    was: int | None
    measured: int

    @property
    def growth(self) -> int:
        return 0 if self.was is None else self.measured - self.was

    def __str__(self) -> str:
        before = "" if self.was in (None, self.measured) else f"{self.was} -> "
        return f"{self.layer} {before}{self.measured}"


def moves(test: TestReport) -> list[Move]:
    """Return every observed layer that has, had or may have graphs, in the order of ``LAYERS``."""
    return [move for move in _moves(test) if move.layer in test.record.layers]


def growth(test: TestReport) -> int:
    """Return the largest growth of any layer in graphs; it is negative if all shrank."""
    return max((move.growth for move in moves(test)), default=0)


def row(test: TestReport) -> str:
    """Return one test on one line: its changed counts, and its number of breaks.

    Layers that nobody limits are left out, but not of a test without any limit: what it has before
    its first baseline grew from nothing.
    """
    is_limited = _limits(test) is not None
    counts = []
    for move in _moves(test):
        if move.was is not None:
            counts.append(str(move))
        elif not is_limited:
            counts.append(str(replace(move, was=0) if move.layer in JUDGED else move))
    breaks = len(test.record.breaks)
    if breaks:
        counts.append(f"{breaks} {noun(breaks, 'graph break')}")
    counts += moved_totals(test)
    counts += [test.outcome] if is_excused(test) else []
    return f"{test.nodeid}   {', '.join(counts)}".rstrip()


def moved_totals(test: TestReport) -> list[str]:
    """Return ``captured operations 28 -> 17`` of a passing test, and runs and reads that grew.

    A test in which a count fell has no operations, since a removed recompile repeats none; if no
    number of graphs fell, it has what did: ``dynamo executions 2 -> 1``.
    """
    totals = [change for change in test.changes or () if change.total]
    if test.verdict == "improved" and not any(move.growth for move in moves(test)):
        return [moved_count(total) for total in totals if total.growth < 0 and total.kind != "ops"]
    if test.verdict != "changed":
        return []
    operations = dict.fromkeys(
        (total.before, total.after) for total in totals if total.kind == "ops"
    )
    runs = [total for total in totals if total.kind in ("execution", "read") and total.growth > 0]
    return [
        *(f"captured operations {before} -> {after}" for before, after in operations),
        *map(moved_count, runs),
    ]


def _moves(test: TestReport) -> Iterator[Move]:
    """Yield the layers with graphs or a limit, also those that were not observed."""
    limits = _limits(test) or {}
    for layer in LAYERS:
        limit, graphs = limits.get(layer), test.record.graphs.get(layer, 0)
        if limit or graphs:
            yield Move(layer, limit, graphs)


def _limits(test: TestReport) -> Mapping[str, int] | None:
    """Return the graphs that the test may make, by its baseline or else its marker."""
    baseline = None if test.baseline is None else test.baseline.graphs
    if baseline is None and test.budget is None:
        return None
    return {**(test.budget.graphs if test.budget else {}), **(baseline or {})}
