"""The header line and the terminal summary: what they say of a run, in which order and colour."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pytest_graphbreak.baseline import Change, Changes, FileChange
from pytest_graphbreak.baseline.model import Entry
from pytest_graphbreak.config.settings import Settings
from pytest_graphbreak.config.typed import Typed
from pytest_graphbreak.model.budget import Values
from pytest_graphbreak.model.report import RunEnvironment
from pytest_graphbreak.report import summary
from pytest_graphbreak.report.summary import Outcome
from tests.reports import Data, a_test, as_tests, over

pytestmark = pytest.mark.pure

ROOT = Path("/suite")
CHECK = Settings(ROOT, ROOT / "baselines", gate=True, typed=Typed(("python", "-m", "pytest")))
SEEN: Data = {"written": False, "unseen": [], "foreign": None}


def a_run(*tests: Data, settings: Settings = CHECK, **changes: Any) -> Outcome:
    return Outcome("cpu", settings, tests=as_tests(*(SEEN | test for test in tests)), **changes)


def shown(outcome: Outcome) -> list[str]:
    return [str(line) for line in summary.lines(outcome)]


STALE = Entry("t.py", "gone", None, "cpu", path=Path("baselines/t.yaml"), line=4)


# the header


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "check, profile cpu, baselines in baselines"),
        ({"record": True}, "record, profile cpu, baselines in baselines"),
        ({"update": True, "prune": True}, "update, prune, profile cpu, baselines in baselines"),
        ({"directory": Path("/other")}, "check, profile cpu, baselines in /other"),
        ({"gate": False}, "report only, profile cpu"),
        (
            {"device": "tt", "tt_log": "off"},
            "check, profile cpu, baselines in baselines, tt through xla",
        ),
    ],
)
def test_header(changes: Data, words: str) -> None:
    assert summary.header(a_run(settings=replace(CHECK, **changes))) == f"graph-budget: {words}"


# the tests


def test_a_run_without_anything_says_nothing() -> None:
    assert shown(a_run()) == []


def test_the_worst_comes_first_and_says_how_urgent_it_is() -> None:
    """Of those that pytest does not list as failed."""
    passed: Data = {"outcome": "passed", "failed_by": None}
    xfailed: Data = {"outcome": "xfailed", "failed_by": None}
    outcome = a_run(
        over("t.py::changed", 2, 2, verdict="changed", **passed),
        over("t.py::improved", 2, 1, verdict="improved", **passed),
        a_test("t.py::new", verdict="new", **passed),
        over("t.py::lost", 2, 0, verdict="lost", **xfailed),
        over("t.py::over", 1, 2, **xfailed),
        over("t.py::red", 1, 2),
        a_test("t.py::error", 0, verdict="error", errors=["blind"], **xfailed),
    )
    words = [line.partition(" ")[0] for line in shown(outcome)]
    table = ["error", "over", "lost", "new", "improved", "changed", "What"]
    assert words[words.index("error") :][: len(table)] == table
    found = {str(line).partition(" ")[0]: line.kind for line in summary.lines(outcome)}
    assert [found[word] for word in table] == [
        *("bad", "bad", "bad", "warning", "good", "warning", "title"),
    ]


def test_a_long_list_is_counted() -> None:
    xfailed: Data = {"outcome": "xfailed", "failed_by": None}
    many = [over(f"t.py::test[{number}]", 1, 2, **xfailed) for number in range(220)]
    rows = [line for line in shown(a_run(*many)) if line.startswith("over ")]
    assert len(rows) == summary.MOST + 1
    assert rows[-1] == "over       ... and 200 more"


# what makes them red


def test_what_is_written_is_red_no_longer() -> None:
    passed = {"written": True, "outcome": "passed", "failed_by": None}
    tests = [over(f"t.py::test[{number}]", 1, 2, **passed) for number in range(2)]
    update = replace(CHECK, update=True)
    changes = Changes()
    assert shown(a_run(*tests, settings=update, changes=changes)) == []
    assert shown(a_run(*tests, settings=update)) == ["2 tests on cpu: 2 not written"]
    own = over("t.py::own", 1, 2, written=True, failed_by="test")
    own_failure = shown(a_run(*tests, own, settings=update, changes=changes))
    assert own_failure == ["3 tests on cpu: 1 failed without the gate"]


# the rest


def test_what_stands_beside_the_tests() -> None:
    fixture = a_test("t.py::a", verdict="ok", setup={"phases": {"setup": {"dynamo": 2}}})
    outcome = a_run(fixture, unmeasured=["t.py::crashed"], stale=[STALE], faults=["no disk"])
    assert shown(outcome) == [
        "unmeasured t.py::crashed",
        "stale      baselines/t.yaml:4  t.py::gone",
        "fixtures   t.py::a   2 dynamo graphs in setup, not judged",
        "error      no disk",
        "1 test on cpu: 1 ok",
        "next       remove the entries of tests that are gone: "
        "python -m pytest --graph-budget-prune",
    ]


def test_there_is_one_next_step_and_after_recording_it_is_of_what_is_red() -> None:
    red, new = over(failed_by="gate"), a_test("t.py::n", verdict="new", failed_by="gate")
    improved = a_test("t.py::i", verdict="improved")

    def next_lines(*tests: Data, **changes: Any) -> list[str]:
        return [line for line in shown(a_run(*tests, **changes)) if line.startswith("next ")]

    update = "next       fix the code, or accept: python -m pytest --graph-budget-update"
    (cut_short,) = next_lines(red, is_cut_short=True)
    assert "or accept (of all tests, also of those that did not run): python" in cut_short
    recording = replace(CHECK, record=True)
    assert next_lines(red, new, improved) == next_lines(red, settings=recording) == [update]
    both = over(failed_by="gate", cap={"layers": {}, "breaks": 0})
    caps = "raise the caps of the markers and accept: "
    assert next_lines(red, both) == [update.replace("accept: ", caps)]
    block = over("t.py::b", failed_by="gate", block=True)
    limits = caps.replace("markers", "markers and the limits of the blocks")
    assert next_lines(red, both, block) == [update.replace("accept: ", limits)]
    assert next_lines(over("t.py::x", failed_by=None, outcome="xfailed")) == []
    record = "next       record what is missing: python -m pytest --graph-budget-record"
    assert next_lines(new) == [record]
    assert next_lines(new, stale=[STALE]) == [f"{record} --graph-budget-prune"]
    assert next_lines(a_test("t.py::x", verdict="new", outcome="xfailed")) == []


def test_a_prune_of_a_part_of_a_file_says_that_no_entry_was_removed() -> None:
    pruning = replace(CHECK, prune=True)
    test = a_test("t.py::a", verdict="ok")
    lines = shown(a_run(test, settings=pruning, changes=Changes()))
    assert lines[0].startswith("note       no entry was removed: only a whole file")
    whole = a_run(test, settings=pruning, changes=Changes(), complete_files=["t.py"])
    assert shown(whole) == ["1 test on cpu: 1 ok"]


def test_entries_of_another_version_are_counted_with_what_renews_them() -> None:
    old = {"graphs": {"dynamo": 1}, "profile": "cpu", "torch": "2.8"}
    tests = [
        a_test(f"t.py::{name}", verdict="ok", baseline=old, layers=["dynamo"]) for name in "ab"
    ]
    now = RunEnvironment("cpu", torch="2.9.1")
    run = a_run(*tests, environment=now)
    assert shown(run)[0] == (
        "note       2 entries measured with torch 2.8: reasons are not compared; renew: "
        "python -m pytest --graph-budget-update"
    )
    values = Values({"dynamo": 1})
    renewed = [
        Change("changed", f"t.py::{name}", Path("t.yaml"), "cpu", values, values) for name in "ab"
    ]
    changes = Changes((FileChange(Path("t.yaml"), None, "", tuple(renewed)),))
    lines = shown(a_run(*tests, environment=now, changes=changes))
    assert not any(line.startswith("note") for line in lines)


def test_in_ci_only_a_report_can_be_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    nothing = "next       nothing here can be accepted: add "
    assert shown(a_run(over()))[-1].startswith(nothing)
    gone = "remove the entries of tests that are gone"
    pytest_prune = "python -m pytest --graph-budget-prune"
    assert shown(a_run(stale=[STALE]))[-1] == f"next       {gone}, in a checkout: {pytest_prune}"
    told = replace(CHECK, report=CHECK.root / "graphs.json")
    accept = "in a checkout: graphbreak accept /suite/graphs.json"
    new = a_test("t.py::n", verdict="new", failed_by="gate")
    for run, end in (
        (a_run(new, settings=told), f"accept intended changes, {accept}"),
        (
            a_run(new, stale=[STALE], settings=told),
            f"accept intended changes, {accept} --prune",
        ),
        (a_run(stale=[STALE], settings=told), f"{gone}, {accept} --prune"),
    ):
        assert shown(run)[-1] == f"next       {end}"
