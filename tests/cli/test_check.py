"""``graphbreak check``: one verdict over all jobs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.conftest import Workspace
from tests.commands import Said
from tests.reports import Data, a_break, a_report, a_shard, a_test, over, place

pytestmark = pytest.mark.pure

T = "tests/test_a.py::test_b"


def accepted(workspace: Workspace, *tests: Data, **report: Any) -> None:
    workspace.report("accepted.json", a_report(*tests, **report))
    assert workspace.run("accept", "--yes", "accepted.json").code == 0


def checked(workspace: Workspace, *tests: Data, code: int, **report: Any) -> Said:
    """Check one report of these tests."""
    workspace.report("one.json", a_report(*tests, **report))
    return workspace.run("check", "one.json", code=code)


WITHIN = "Within the graph budget"


def test_the_verdict_of_the_run_is_not_taken_over(workspace: Workspace) -> None:
    """The job may have observed only, or judged by other baselines."""
    accepted(workspace, a_test(T, 3))
    checked(workspace, over(T, 1, 3), code=0)
    checked(workspace, a_test(T, 4, verdict="ok"), code=1)


@pytest.mark.parametrize(
    ("test", "code", "verdict"),
    [
        (a_test("tests/test_a.py::unknown"), 1, "new"),
        (a_test("tests/test_a.py::unknown", outcome="xpassed"), 0, "none"),
        (a_test(T, 9, outcome="xpassed"), 0, f"over. {WITHIN}, but for 1 test"),
        (over(T, 2, 9, outcome="xfailed", failed_by=None), 0, f"over. {WITHIN}, but for 1 test"),
        (a_test(T, 0), 1, "lost"),
        (a_test(T, 1), 0, "improved"),
        (a_test(T, 2, breaks=[a_break(place(code="elsewhere()"))]), 0, "changed"),
        (a_test(T, 2, errors=["a sensor is missing"]), 1, "error"),
        (a_test("tests/test_a.py::nothing", 0), 0, "none"),
    ],
)
def test_every_verdict(test: Data, code: int, verdict: str, workspace: Workspace) -> None:
    accepted(workspace, a_test(T, 2))
    said = checked(workspace, test, code=code)
    assert f"1 {verdict}" in said.out


@pytest.mark.parametrize("verdict", ["improved", "changed", "stale"])
def test_strict_is_the_ini_keys(verdict: str, workspace: Workspace) -> None:
    accepted(
        workspace, a_test(T, 2), *([a_test("tests/test_a.py::gone")] if verdict == "stale" else [])
    )
    test = {
        "improved": a_test(T, 1),
        "changed": a_test(T, 2, breaks=[a_break(place(code="elsewhere()"))]),
        "stale": a_test(T, 2),
    }[verdict]
    said = checked(workspace, test, code=0)
    assert verdict in said.out
    (workspace.path / "pytest.ini").write_text("[pytest]\ngraph_budget_strict = true\n")
    strict = workspace.run("check", "one.json", code=1)
    command = "graphbreak accept one.json --prune\n"
    for out in (said.out, strict.out):
        assert out.endswith(f"Remove the entries of tests that are gone: {command}") == (
            verdict == "stale"
        )


def test_a_profile_says_nothing_of_the_tests_of_another(workspace: Workspace) -> None:
    only = "tests/test_a.py::test_on_tt"
    workspace.report("cpu.json", a_report(a_test(T)))
    workspace.report("tt.json", a_report(a_test(T), a_test(only), profile="tt"))
    workspace.run("accept", "--yes", "--base-profile", "cpu", "cpu.json", "tt.json", code=0)
    workspace.report("tt_without.json", a_report(a_test(T), profile="tt"))
    assert "stale" not in workspace.run("check", "cpu.json").out
    assert f"{only}\n" in workspace.run("check", "cpu.json", "tt_without.json").out
    assert "stale" not in workspace.run("check", "cpu.json", "tt.json").out


def test_all_shards_are_one_gate(workspace: Workspace) -> None:
    tests = [a_test(f"tests/test_a.py::test[{number}]") for number in range(4)]
    accepted(workspace, *tests, a_test("tests/test_a.py::gone"))
    names = [workspace.report(f"{number}.json", a_shard(number)) for number in range(4)]
    said = workspace.run("check", *names, code=0)
    assert "4 tests judged on cpu (4 reports): 4 ok" in said.out
    assert "stale      baselines/tests/test_a.yaml:" in said.out
    assert "tests/test_a.py::gone" in said.out
    said = workspace.run("check", *names[:3], code=2)
    assert "missing    tests/test_a.py::test[3]   on cpu" in said.out
    assert "No verdict: 1 test collected, and run in none of these reports." in said.out
    assert said.out.count("stale ") == 1
    assert workspace.run("check", "--allow-missing", *names[:3]).code == 0


def test_a_shard_that_is_missing_is_named(workspace: Workspace) -> None:
    """Its runner was lost: what it would have found is not known."""
    tests = [a_test(f"tests/test_a.py::test[{number}]") for number in range(2)]
    accepted(workspace, *tests)
    for number in range(2):
        for profile in ("cpu", "tt"):
            group = {"group": number + 1, "of": 2}
            report = a_shard(number, of=2, profile=profile, shard=group)
            workspace.report(f"{profile}{number}.json", report)
    assert workspace.run("check", "cpu0.json", "cpu1.json", "tt0.json", "tt1.json").code == 0
    said = workspace.run("check", "cpu0.json", "cpu1.json", "tt1.json", code=2)
    assert "missing    group 1 of 2 on tt: no report is of it" in said.out
    assert "No verdict: 1 shard missing. Is a report missing?" in said.out
    assert workspace.run("check", "cpu0.json", "cpu1.json", "tt1.json", "--allow-missing").code == 0


def test_tests_of_the_baselines_that_no_report_has(workspace: Workspace) -> None:
    """Jobs that take a directory each: one that is missing is seen by the baselines alone."""
    one, two = (a_test(f"tests/test_{name}.py::test") for name in "ab")
    accepted(workspace, one, two)
    first, second = (
        workspace.report(f"{number}.json", a_report(test)) for number, test in enumerate((one, two))
    )
    said = workspace.run("check", first, code=0)
    assert "1 test of the baselines is in no report (--complete: exit 1" in said.out
    said = workspace.run("check", "--complete", first, "--markdown", "c.md", code=1)
    assert "no report  tests/test_b.py::test\n" in said.out
    assert "Not passed: 1 test of the baselines is in no report." in said.out
    assert "tests/test_b.py::test" in (workspace.path / "c.md").read_text()
    said = workspace.run("check", "--complete", first, second, code=0)
    assert "no report" not in said.out


def test_what_one_profile_left_out_and_another_ran(workspace: Workspace) -> None:
    """A matrix of marks leaves out what was never recorded there; else a shard is missing."""
    one, two = (a_test(f"tests/test_a.py::test[{name}]") for name in "ab")
    left: Data = {"collected": 2, "deselected": 1}
    workspace.report("cpu.json", a_report(one, **left, deselected_tests=[two["nodeid"]]))
    workspace.report(
        "tt.json", a_report(two, profile="tt", **left, deselected_tests=[one["nodeid"]])
    )
    assert workspace.run("accept", "--yes", "cpu.json", "tt.json").code == 0
    assert workspace.run("check", "cpu.json", "tt.json").code == 0
    workspace.report("more.json", a_report(one, profile="tt"))
    assert workspace.run("accept", "--yes", "more.json").code == 0
    workspace.report("other.json", a_report(one | {"graphs": {"dynamo": 2}}, profile="tt"))
    assert workspace.run("accept", "--yes", "other.json").code == 0  # now tt has values of its own
    said = workspace.run("check", "cpu.json", "tt.json", code=2)
    assert f"missing    {one['nodeid']}   on tt" in said.out


@pytest.mark.parametrize(
    "tests",
    [
        [],
        [a_test(T, 0, outcome="skipped")],
        [a_test(T, 1, outcome="failed", failed_by="test")],
        [a_test(T, 0, outcome="xfailed", failed_by="test")],
    ],
    ids=["none", "skipped", "failed by itself", "xfailed"],
)
def test_a_gate_that_judged_nothing_does_not_pass(tests: list[Data], workspace: Workspace) -> None:
    accepted(workspace, a_test(T, 1))
    workspace.report("one.json", a_report(*tests))
    said = workspace.run("check", "one.json", "--markdown", "page.md", code=2)
    assert (
        "No verdict: nothing was judged. Is a report missing? If this is intended: --allow"
        in said.out
    )
    assert "none over budget" not in (workspace.path / "page.md").read_text()
    assert workspace.run("check", "one.json", "--allow-missing").code == 0


def test_two_reports_of_which_one_is_empty(workspace: Workspace) -> None:
    accepted(workspace, a_test(T, 1))
    workspace.report("one.json", a_report())
    assert workspace.run("check", "one.json", "accepted.json").code == 0


def test_profiles_are_judged_by_their_own_values(workspace: Workspace) -> None:
    workspace.report("cpu.json", a_report(a_test(T, 1)))
    workspace.report("n150.json", a_report(a_test(T, 3), profile="tt-n150"))
    workspace.run("accept", "--yes", "cpu.json", "n150.json")
    assert workspace.run("check", "cpu.json", "n150.json").code == 0
    workspace.report("cpu.json", a_report(a_test(T, 3)))
    said = workspace.run("check", "cpu.json", "n150.json", code=1)
    assert "on cpu, tt-n150 (2 reports): 1 over, 1 ok" in said.out


def test_a_test_that_failed_by_itself_is_not_judged(workspace: Workspace) -> None:
    accepted(workspace, a_test(T, 1))
    failed = a_test("tests/test_a.py::test_c", 9, outcome="failed", failed_by="test")
    xfailed = [a_test(f"{T}{number}", 9, outcome="xfailed") for number in range(2)]
    said = checked(workspace, a_test(T, 1), failed, *xfailed, code=0)
    assert "1 test failed without the gate, and is not judged" in said.out
    assert "2 tests xfailed without the gate, and are not judged" in said.out


def test_a_test_that_is_not_gated_is_counted_as_ungated_and_not_as_judged(
    workspace: Workspace,
) -> None:
    accepted(workspace, a_test(T, 1))
    apart = a_test("tests/test_a.py::apart", 9, ungated="it depends on the data")
    said = checked(workspace, a_test(T, 1), apart, code=0)
    assert "\n1 test judged on cpu (1 report): 1 ok, 1 ungated. " in said.out


def test_an_entry_is_not_stale_if_the_reports_have_its_test(workspace: Workspace) -> None:
    """The reports are of another commit, which had the file."""
    gone = "tests/test_b.py::test"
    accepted(workspace, a_test(T), a_test(gone), a_test(f"{gone}_of_before"))
    (workspace.path / "tests/test_b.py").unlink()
    said = checked(workspace, a_test(T), a_test(gone), code=0)
    assert f"  {gone}\n" not in said.out
    assert f"  {gone}_of_before\n" in said.out
    said = workspace.run("accept", "--yes", "--prune", "one.json", code=0)
    assert said.out.count("its test is gone") == 1
    assert "stale" not in workspace.run("check", "one.json", code=0).out


# what cannot be judged


def test_unmeasured_tests_fail(workspace: Workspace) -> None:
    accepted(workspace, a_test(T))
    said = checked(workspace, a_test(T), unmeasured=["tests/test_a.py::crashed"], code=1)
    assert "unmeasured tests/test_a.py::crashed   on cpu" in said.out


def test_contradictions_are_no_ground_for_a_verdict(workspace: Workspace) -> None:
    """Neither of the test that two reports contradict nor of the run: nothing is to be accepted."""
    other = "tests/test_a.py::other"
    accepted(workspace, a_test(T), a_test(other))
    workspace.report("one.json", a_report(a_test(T, 3), a_test(other, 2)))
    workspace.report("two.json", a_report(a_test(T, 2), a_test(other, 2)))
    said = workspace.run("check", "one.json", "two.json", code=2)
    assert f"contradiction: {T} on cpu: 3 or 2 dynamo graphs\n  one.json\n  two.json" in said.err
    assert said.out.splitlines() == [
        f"over       {other}   dynamo 1 -> 2, 1 graph break   on cpu",
        "1 test judged on cpu (2 reports): 1 over. No verdict: the reports cannot be judged.",
    ]


@pytest.mark.parametrize("change", [{"exit": 2}, {"exit": 3}, {"collected": 9}])
def test_incomplete_reports_are_no_ground_for_a_verdict(change: Data, workspace: Workspace) -> None:
    accepted(workspace, a_test(T))
    said = checked(workspace, a_test(T), **change, code=2)
    assert "incomplete: one.json: " in said.err


def test_unreadable_reports_and_baselines(workspace: Workspace) -> None:
    accepted(workspace, a_test(T))
    (workspace.path / "bad.json").write_text("{")
    said = workspace.run("check", "accepted.json", "bad.json", "missing.json", code=2)
    assert "bad.json: " in said.err
    assert "missing.json: " in said.err
    (workspace.path / "baselines/tests/test_b.yaml").write_text("version: 7\n")
    said = workspace.run("check", "accepted.json", code=2)
    assert "test_b.yaml:1" in said.err


def test_baselines_that_are_a_file_are_one_problem(workspace: Workspace) -> None:
    workspace.report("one.json", a_report(a_test(T)))
    said = workspace.run("check", "one.json", "--graph-budget-dir", "tests/test_a.py", code=2)
    problem = "is no directory; name a directory with graph_budget_dir"
    assert said.err == f"tests/test_a.py: {problem}\n"
    missing = workspace.run("check", "one.json", "--graph-budget-dir", "kept", code=1)
    note = f"note: {workspace.path}/kept is not there, so no baseline is read"
    assert missing.err == f"graphbreak: {note}\n"


def test_reports_that_were_compared_with_baselines_are_not_judged_without_them(
    workspace: Workspace,
) -> None:
    """Every test would be new, and ``accept`` would refuse: it says the same."""
    directory = workspace.path / "baselines"
    said = checked(workspace, over(T, 1, 2), code=2)
    note = f"graphbreak: note: {directory} is not there, so no baseline is read\n"
    assert said.err.startswith(f"{note}{directory} is not there, and {T} was compared with a")
    assert said.out.endswith(": none. No verdict: the reports cannot be judged.\n")
    refused = workspace.run("accept", "--yes", "one.json", code=2)
    assert said.err.removeprefix(note).strip() in refused.err
    assert workspace.run("check", "one.json", "--against", "one.json", code=0).err == note


def test_so_many_problems_are_reported_and_the_rest_is_counted(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_graphbreak.cli.check.MOST", 2)
    names = [workspace.report(f"{number}.json", a_report(a_test(), exit=3)) for number in range(5)]
    said = workspace.run("check", *names, code=2)
    assert said.err.splitlines()[-1] == "... and 3 more"


# --against


def test_against_wins_over_the_baseline(workspace: Workspace) -> None:
    accepted(workspace, a_test(T, 1))
    workspace.report("main.json", a_report(a_test(T, 3)))
    workspace.report("branch.json", a_report(a_test(T, 3)))
    assert workspace.run("check", "branch.json").code == 1
    assert workspace.run("check", "branch.json", "--against", "main.json").code == 0


@pytest.mark.parametrize(("graphs", "words"), [(3, "allows 1 (+2)"), (0, "has 1")])
def test_what_another_run_judged_is_accepted_by_no_command(
    graphs: int, words: str, workspace: Workspace
) -> None:
    """``accept`` would write the baselines, and this check reads the other run."""
    workspace.report("main.json", a_report(a_test(T, 1)))
    said = checked_against(workspace, a_test(T, graphs))
    assert f", --against {words}\n" in said.out
    assert "\n    against   main.json (cpu, torch 2.13)\n" in said.out
    assert "baseline" not in said.out
    assert "graphbreak accept" not in said.out
    assert said.out.endswith(" Intended changes pass once the reports of --against have them.\n")


def test_what_the_other_run_lacks_is_accepted(workspace: Workspace) -> None:
    workspace.report("main.json", a_report(a_test(T, 1)))
    said = checked_against(workspace, a_test(T, 3), a_test("tests/test_a.py::new", 1))
    assert said.out.count("graphbreak accept") == 1
    assert said.out.endswith(" Accept intended changes: graphbreak accept one.json\n")


def test_no_page_accepts_what_another_run_judged(workspace: Workspace) -> None:
    workspace.report("main.json", a_report(a_test(T, 1)))
    workspace.report("one.json", a_report(a_test(T, 3), a_test(f"{T}_new", 1)))
    pages = ("--markdown", "c.md", "--html", "c.html")
    workspace.run("check", "one.json", "--against", "main.json", *pages, code=1)
    html = (workspace.path / "c.html").read_text()
    assert f"graphbreak accept one.json --tests {T}_new" in html
    assert html.count(f"graphbreak accept one.json --tests {T}") == html.count(f"--tests {T}_new")
    assert "To accept these counts" in (workspace.path / "c.md").read_text()
    workspace.report("one.json", a_report(a_test(T, 3)))
    workspace.run("check", "one.json", "--against", "main.json", *pages, code=1)
    assert "To accept these counts" not in (workspace.path / "c.md").read_text()


def checked_against(workspace: Workspace, *tests: Data) -> Said:
    workspace.report("one.json", a_report(*tests))
    return workspace.run("check", "one.json", "--against", "main.json", code=1)


def test_another_run_judges_as_its_baseline_does(workspace: Workspace) -> None:
    """Also what ran, on a layer of which not all captured operations are known."""

    def lazy(ran: int) -> Data:
        run = {"layer": "xla", "cause": "sync", "count": ran, "where": place()}
        graphs, counts = {"dynamo": 0, "xla": 1}, {"executions": {"xla": ran}}
        lists: Data = {"graph_list": [], "execution_list": [run]}
        return a_test(T, layers=["dynamo", "xla"], graphs=graphs, **counts, **lists)

    workspace.report("main.json", a_report(lazy(5)))
    workspace.report("branch.json", a_report(lazy(6)))
    accepted(workspace, lazy(5))
    (workspace.path / "pytest.ini").write_text("[pytest]\ngraph_budget_runs = fail\n")
    by_baseline = workspace.run("check", "branch.json")
    by_run = workspace.run("check", "branch.json", "--against", "main.json")
    for said, budget in ((by_baseline, "the baseline"), (by_run, "--against")):
        assert said.code == 1
        assert f"6 xla executions, {budget} allows 5 (+1)" in said.out


def test_a_test_that_main_lacks_is_judged_by_its_baseline(workspace: Workspace) -> None:
    workspace.report("main.json", a_report(a_test("tests/test_a.py::other")))
    workspace.report("branch.json", a_report(a_test(T, 2)))
    said = workspace.run("check", "branch.json", "--against", "main.json", code=1)
    assert f"new        {T}" in said.out
    accepted(workspace, a_test(T, 2))
    assert workspace.run("check", "branch.json", "--against", "main.json").code == 0


def test_a_layer_that_main_did_not_observe_is_not_judged(workspace: Workspace) -> None:
    both: Data = {"layers": ["dynamo", "xla"], "graphs": {"dynamo": 1, "xla": 5}}
    workspace.report("main.json", a_report(a_test(T)))
    workspace.report("branch.json", a_report(a_test(T, **both)))
    assert workspace.run("check", "branch.json", "--against", "main.json").code == 0
    # A layer that had graphs is not there any more.
    said = workspace.run("check", "main.json", "--against", "branch.json", code=1)
    assert "no xla graph any more" in said.out


def test_against_reports_that_contradict_each_other(workspace: Workspace) -> None:
    workspace.report("branch.json", a_report(a_test(T)))
    workspace.report("one.json", a_report(a_test(T, 1)))
    workspace.report("two.json", a_report(a_test(T, 2)))
    said = workspace.run("check", "branch.json", "--against", "one.json", "two.json", code=2)
    assert "--against: contradiction: " in said.err


def test_a_main_that_failed_by_itself_is_no_budget(workspace: Workspace) -> None:
    workspace.report("main.json", a_report(a_test(T, 9, outcome="failed", failed_by="test")))
    workspace.report("branch.json", a_report(a_test(T, 9)))
    assert workspace.run("check", "branch.json", "--against", "main.json").code == 1


# pages


def test_a_page_that_cannot_be_written_is_an_error(workspace: Workspace) -> None:
    accepted(workspace, a_test(T, 1))
    (workspace.path / "file").write_text("")
    said = workspace.run("check", "accepted.json", "--markdown", "file/comment.md", code=2)
    assert "file/comment.md: cannot be written" in said.err
