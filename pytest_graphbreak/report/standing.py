"""Where the tests of a report stand for a reader, by their verdicts or by what replaces these.

Markdown, HTML and the console show the same tests in the same order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain
from typing import Final

from pytest_graphbreak.judging.verdict import verdict_of
from pytest_graphbreak.model.differences import BY_VERDICT, FAILING, VERDICTS
from pytest_graphbreak.model.report import TestReport
from pytest_graphbreak.report.counts import growth

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
        # Of a test that fails by itself, or is marked xfail, nothing is recorded or missing.
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
