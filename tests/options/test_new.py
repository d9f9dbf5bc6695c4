"""``graph_budget_new``: whether a test without a baseline fails, or is only reported."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.conftest import BROKEN, CLEAN, Suite

if TYPE_CHECKING:
    import pytest

REPORT = ("-o", "graph_budget_new=report")
GITHUB = {
    "CI": "true",
    "GITHUB_ACTIONS": "true",
    "GITHUB_RUN_ID": "123456",
    "GITHUB_REPOSITORY": "tenstorrent/tt-xla",
    "GITHUB_SERVER_URL": "https://github.com",
}


def test_by_itself_a_new_test_fails(suite: Suite) -> None:
    suite.write(CLEAN)
    result = suite.run("--graph-budget")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["1 test on *: 1 new"])


def test_reported_it_passes_and_is_told(suite: Suite) -> None:
    suite.write(CLEAN)
    result = suite.run("--graph-budget", "--graph-budget-report=graphs.json", *REPORT)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "new        test_it.py::test_model   dynamo 0 -> 1",
            "1 test on *: 1 new (reported)",
            "next       record what is missing: * --graph-budget-record*",
        ]
    )
    (test,) = suite.report("--graph-budget", *REPORT)["tests"]
    assert (test["verdict"], test["outcome"], test["failed_by"]) == ("new", "passed", None)
    assert not suite.has_baseline()


def test_what_has_a_baseline_is_judged_as_always(suite: Suite) -> None:
    suite.write(CLEAN)
    suite.run("--graph-budget-record")
    suite.write(BROKEN)
    suite.run("--graph-budget", *REPORT).assert_outcomes(failed=1)


def test_a_marker_is_a_limit_of_its_own(suite: Suite) -> None:
    suite.write(
        BROKEN.replace("def test", "import pytest\n    @pytest.mark.max_graphs(1)\n    def test")
    )
    suite.run("--graph-budget", *REPORT).assert_outcomes(failed=1)


def test_every_report_tells_it(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_graphbreak.cli import main

    suite.write(CLEAN)
    suite.pytester.makeini("[pytest]\ngraph_budget_new = report\n")
    suite.run("--graph-budget", "--graph-budget-report=graphs.json").assert_outcomes(passed=1)
    monkeypatch.chdir(suite.path)
    pages = ["--markdown=c.md", "--html=c.html", "--junit=c.xml"]
    assert main(["check", "graphs.json", *pages]) == 0
    comment = Path("c.md").read_text()
    assert "### Graph budget: 1 test, none over budget, 1 without a baseline" in comment
    assert "| new (reported) | <code>test_it.py::test_model</code> | dynamo 1 |" in comment
    assert "graphbreak accept" in comment
    assert '"verdict":"new (reported)"' in Path("c.html").read_text()
    junit = Path("c.xml").read_text()
    assert '<property name="verdict" value="new (reported)"/>' in junit
    assert "<failure" not in junit


def test_check_says_what_records_it(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from pytest_graphbreak.cli import main

    suite.write(CLEAN)
    suite.run("--graph-budget-report=graphs.json")
    monkeypatch.chdir(suite.path)
    capsys.readouterr()
    assert main(["check", "graphs.json"]) == 1
    assert "1 new. Over the graph budget." in capsys.readouterr().out
    suite.pytester.makeini("[pytest]\ngraph_budget_new = report\n")
    assert main(["check", "graphs.json"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert "1 new (reported). Within the graph budget. " in last
    assert last.endswith("Record what is new: graphbreak accept graphs.json")
    suite.pytester.makeini("[pytest]\ngraph_budget_new = maybe\n")
    assert main(["check", "graphs.json"]) == 2
    assert "graph_budget_new: 'maybe' is not one of fail, report" in capsys.readouterr().err


def test_on_github_there_is_a_line_to_paste(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, value in GITHUB.items():
        monkeypatch.setenv(name, value)
    summary = suite.path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    suite.write(CLEAN)
    line = "graphbreak accept --run 123456 --repo tenstorrent/tt-xla"
    options = ("--graph-budget", "--graph-budget-report=graphs.json")
    suite.run(*options, *REPORT).stdout.fnmatch_lines(
        [
            "::notice title=graph budget%3A 1 test has no baseline"
            f"::{line}%0Atest_it.py::test_model",
            f"next       accept what is meant, in a checkout: {line}",
        ]
    )
    assert f"\n```sh\n{line}\n```\n" in summary.read_text()
    result = suite.run(*options)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"  record    {line} --tests test_it.py::test_model"])
    result = suite.run("--graph-budget")
    result.stdout.fnmatch_lines(["  record    add --graph-budget-report=graphs.json, and keep *"])


def test_another_value_is_a_usage_error(suite: Suite) -> None:
    result = suite.run("-o", "graph_budget_new=maybe")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*graph_budget_new: 'maybe' is not one of fail, report"])
