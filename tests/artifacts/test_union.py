"""Many reports put together: who wins, who contradicts, what is whole."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_graphbreak.artifacts.incoming import parse
from pytest_graphbreak.artifacts.union import Union, union
from tests.reports import Data, a_break, a_report, a_shard, a_test, over, place

pytestmark = pytest.mark.pure

T = "tests/test_a.py::test_b"


def together(*reports: Data) -> Union:
    return union(parse(f"{number}.json", report) for number, report in enumerate(reports))


def outcome_of(found: Union, nodeid: str = T, profile: str = "cpu") -> Any:
    return found.seen[profile, nodeid].test.outcome


FAILED = a_test(T, outcome="failed", failed_by="test")
CRASHED = a_test(T, 0, layers=[], outcome="crashed", failed_by="test")
SKIPPED = a_test(T, 0, layers=[], outcome="skipped")
BLIND = a_test(
    T, errors=["a sensor is missing"], outcome="failed", failed_by="gate", verdict="error"
)


@pytest.mark.parametrize(
    "worse", [FAILED, CRASHED, SKIPPED, BLIND], ids=lambda test: test["outcome"]
)
def test_the_report_that_saw_more_is_taken_in_any_order(worse: Data) -> None:
    good = a_test(T)
    for reports in ((worse, good), (good, worse)):
        found = together(*(a_report(test) for test in reports))
        assert outcome_of(found) == "passed"
        assert not found.contradictions


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        (a_test(T, 1), a_test(T, 3), "1 or 3 dynamo graphs"),
        (a_test(T), a_test(T, recompiles={"dynamo": 2}), "0 or 2 dynamo recompiles"),
        (
            a_test(T, 2),
            a_test(T, 2, breaks=[a_break(place(code="other"))]),
            "breaks at models/head.py::Head.forward: if scores[0].item(): or at "
            "models/head.py::Head.forward: other",
        ),
        (
            a_test(T),
            a_test(T, eager=[{"layer": "dynamo", "reason": "x", "count": 1, "where": place()}]),
            "code outside the compiler at no other place or at "
            "models/head.py::Head.forward: if scores.max().item() > 1:",
        ),
    ],
)
def test_two_that_measured_and_differ_contradict(one: Data, other: Data, words: str) -> None:
    found = together(a_report(one), a_report(other))
    (contradiction,) = found.contradictions
    assert str(contradiction) == f"{T} on cpu: {words}\n  0.json\n  1.json"


def test_the_same_twice_is_no_contradiction() -> None:
    moved = a_test(T, 2)
    moved["breaks"][0]["where"]["line"] = 99  # an unrelated edit above
    moved["breaks"][0]["count"] = 7  # how often a place broke is detail
    assert not together(a_report(a_test(T, 2)), a_report(moved)).contradictions


def test_a_layer_that_only_one_job_had_is_no_contradiction() -> None:
    """torch_xla is imported by another test of the same process, or not."""
    less, more = a_test(T), a_test(T, layers=["dynamo", "xla"], graphs={"dynamo": 1, "xla": 2})
    for reports in ((less, more), (more, less)):
        found = together(*(a_report(test) for test in reports))
        assert not found.contradictions
        assert found.seen["cpu", T].test.record.graphs == {"dynamo": 1, "xla": 2}


def test_an_xfail_of_the_tests_own_is_not_taken_for_a_measurement() -> None:
    own = a_test(T, 1, outcome="xfailed")
    by_the_gate = over(T, 1, 3, outcome="xfailed", failed_by=None)
    found = together(a_report(own), a_report(by_the_gate))
    assert not found.contradictions
    assert found.seen["cpu", T].test.verdict == "over"


# what is missing


def test_a_crash_is_unmeasured_until_a_retry_measures_it() -> None:
    crashed = a_report(CRASHED, unmeasured=[T, "tests/test_a.py::never"])
    assert together(crashed).unmeasured == [("cpu", T), ("cpu", "tests/test_a.py::never")]
    retried = together(crashed, a_report(a_test(T)))
    assert retried.unmeasured == [("cpu", "tests/test_a.py::never")]
    elsewhere = together(crashed, a_report(a_test(T), profile="tt-n150"))
    assert ("cpu", T) in elsewhere.unmeasured


@pytest.mark.parametrize(("exit", "word"), [(2, "interrupted"), (3, "internal"), (4, "start")])
def test_a_run_that_did_not_end_is_incomplete(exit: int, word: str) -> None:
    (reason,) = together(a_report(a_test(T), exit=exit)).incomplete
    assert reason.startswith("0.json: ")
    assert word in reason


@pytest.mark.parametrize("exit", [0, 1, 5, 7])
def test_other_exits_are_ends(exit: int) -> None:
    assert not together(a_report(a_test(T), exit=exit)).incomplete


def test_a_run_that_stopped_early_is_incomplete() -> None:
    (reason,) = together(a_report(a_test(T), collected=5, deselected=1)).incomplete
    assert "3 of the tests that its run collected are not in it" in reason
    reported = a_report(a_test(T), collected=5, deselected=1, unmeasured=["a::1", "a::2", "a::3"])
    assert not together(reported).incomplete


# what was collected


def test_a_crashed_test_was_collected() -> None:
    found = together(a_shard(0, 1, of=2, unmeasured=["tests/test_a.py::test[9]"]))
    assert "tests/test_a.py::test[9]" in found.collected_tests


def test_a_run_that_says_it_was_complete_is_believed() -> None:
    """Reports of before this key have only `complete_files`."""
    report = a_report(a_test(T), complete_files=["tests/test_a.py"], collected_whole=[])
    assert together(report).by_profile["cpu"].complete == {"tests/test_a.py"}
