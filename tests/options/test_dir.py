"""``--graph-budget-dir``: where baselines live."""

from __future__ import annotations

import pytest

from tests.conftest import CLEAN, Suite

pytestmark = pytest.mark.once


def test_a_directory_under_the_rootdir(suite: Suite) -> None:
    suite.write(CLEAN)
    suite.run("--graph-budget-update", "--graph-budget-dir=budgets/graphs")
    assert (suite.path / "budgets" / "graphs" / "test_it.yaml").exists()
    result = suite.run("--graph-budget", "--graph-budget-dir=budgets/graphs")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["graph-budget: check, *, baselines in budgets/graphs"])


def test_a_directory_that_is_not_there_is_named(suite: Suite) -> None:
    suite.write(CLEAN)
    suite.run("--graph-budget-record")
    result = suite.run("--graph-budget", "--graph-budget-dir=typo")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [f"error      {suite.path}/typo is not there, so no baseline was read"]
    )
    suite.run("--graph-budget").stdout.no_fnmatch_line("*is not there*")
