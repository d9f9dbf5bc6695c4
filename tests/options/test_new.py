"""``graph_budget_new``: whether a test without a baseline fails, or is only reported."""

from __future__ import annotations

import pytest

from tests.conftest import CLEAN, GITHUB, Suite

pytestmark = pytest.mark.once

REPORT = ("-o", "graph_budget_new=report")


def test_on_github_there_is_a_line_to_paste(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"CI": "true", **GITHUB}.items():
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
            f"next       accept intended changes, in a checkout: {line}",
        ]
    )
    assert f"\n```sh\n{line}\n```\n" in summary.read_text()
    assert not suite.has_baseline()
    result = suite.run(*options, failed=1)
    result.stdout.fnmatch_lines([f"  record    {line} --tests test_it.py::test_model"])
    result = suite.run("--graph-budget")
    result.stdout.fnmatch_lines(["  record    add --graph-budget-report=graphs.json, and keep *"])
