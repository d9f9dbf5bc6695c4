"""``--graph-budget-dir``: where baselines live."""

from __future__ import annotations

import pytest

from tests.conftest import CLEAN, Suite

pytestmark = pytest.mark.once


def test_a_directory_under_the_rootdir(suite: Suite) -> None:
    suite.write(CLEAN)
    suite.run("--graph-budget-update", "--graph-budget-dir=budgets/graphs")
    assert (suite.path / "budgets" / "graphs" / "test_it.yaml").exists()
    result = suite.run("--graph-budget", "--graph-budget-dir=budgets/graphs", passed=1)
    result.stdout.fnmatch_lines(["graph-budget: check, *, baselines in budgets/graphs"])


RUNS = ((), ("-n", "2"), ("-o", "graph_budget_new=report"), ("-o", "addopts=-q"))


@pytest.mark.parametrize("options", RUNS, ids=" ".join)
def test_a_directory_that_is_not_there_ends_the_run(options: tuple[str, ...], suite: Suite) -> None:
    """A checkout without its baselines has only new tests, which may be reported alone."""
    suite.write(CLEAN)
    suite.run(
        "--graph-budget", "--graph-budget-dir=typo", *options, ret=pytest.ExitCode.USAGE_ERROR
    ).stderr.fnmatch_lines(["ERROR: typo is not there, so no test *--graph-budget-record*"])


@pytest.mark.parametrize("option", ["", "-record"])
def test_a_file_in_place_of_the_directory_ends_the_run(option: str, suite: Suite) -> None:
    suite.write(CLEAN)
    result = suite.run(
        f"--graph-budget{option}", "--graph-budget-dir=test_it.py", ret=pytest.ExitCode.USAGE_ERROR
    )
    words = "is no directory; name a directory with graph_budget_dir"
    result.stderr.fnmatch_lines([f"ERROR: *test_it.py: {words}"])


@pytest.mark.parametrize("option", ["", "-report=g.json", "-record", "-update"])
def test_a_directory_that_is_not_there_is_no_error_where_nothing_is_read_from_it(
    option: str, suite: Suite
) -> None:
    suite.write(CLEAN.replace("test_model()", "test_model(graph_budget)"))
    options = [f"--graph-budget{option}"] if option else []
    suite.run(*options, "--graph-budget-dir=typo").assert_outcomes(passed=1)
