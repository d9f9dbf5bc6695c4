"""``--graph-budget``: the gate itself, and its ini key."""

from __future__ import annotations

import pytest

from tests.conftest import BROKEN, CLEAN, Suite

pytestmark = pytest.mark.once


def test_growth_fails_with_the_reason_that_is_new(recorded: Suite) -> None:
    recorded.write(BROKEN)
    result = recorded.run("--graph-budget", failed=1)
    result.stdout.fnmatch_lines(
        [
            "graph budget: 2 dynamo graphs, the baseline allows 1 (+1)",
            "  + GB0059  Failed to trace builtin operator",
            "      test_it.py:* in f",
            '          print("hello")',
            "      fix: *",
            "  dynamo 1 -> 2 (1 entry, 1 after a break), breaks 0 -> 1",
            "  accept    *pytest * --graph-budget-update test_it.py::test_model",
            "  baseline  baselines/test_it.yaml:* (*, torch *)",
            "*= graph budget =*",
            "1 test on *: 1 over",
            "FAILED test_it.py::test_model - graph budget: 2 dynamo graphs, the baseline *",
        ]
    )
    assert result.ret == 1
    result.stdout.no_fnmatch_line("*torch.__trace*")


def test_a_test_that_compiles_nothing_needs_none(suite: Suite) -> None:
    suite.write("import torch\ndef test_eager():\n    torch.ones(3).sin()\n")
    suite.run("--graph-budget").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pytest.ini", "[pytest]\ngraph_budget = true\n"),
        ("pyproject.toml", "[tool.pytest.ini_options]\ngraph_budget = true\n"),
    ],
)
def test_the_ini_key(suite: Suite, name: str, text: str) -> None:
    suite.write(CLEAN)
    (suite.path / "pytest.ini").unlink(missing_ok=True)
    (suite.path / name).write_text(text)
    (suite.path / "baselines").mkdir()
    suite.run().assert_outcomes(failed=1)


def test_the_flag_swallows_no_path(suite: Suite) -> None:
    suite.write(CLEAN, "test_one")
    suite.write(CLEAN, "test_two")
    suite.run("--graph-budget", "test_two.py").assert_outcomes(failed=1)


@pytest.mark.parametrize("dry", ["--collect-only", "--setup-only", "--setup-plan"])
def test_a_dry_run_measures_and_checks_nothing(suite: Suite, dry: str) -> None:
    suite.write(CLEAN)
    suite.write_baseline("<<<<<<< HEAD\n", "broken")
    suite.run("--graph-budget", dry, ret=0)


BAD = 'version: 1\nprofile: cpu\ntorch: "2.9"\ntests:\n  a: {graphs: {dynamo: -1}}\n'
PRINTING = "def test_one():\n    print('a body')\n\ndef test_two():\n    print('a body')\n"


@pytest.mark.usefixtures("forks")
@pytest.mark.parametrize("name", ["test_it", "other"])
def test_a_broken_baseline_is_a_usage_error_before_any_test(suite: Suite, name: str) -> None:
    """Also that of a file with no tests, in a run of all."""
    suite.write(PRINTING)
    suite.write_baseline(BAD, name)
    result = suite.run_apart("--graph-budget", "-s", ret=4)
    result.stderr.fnmatch_lines([f"ERROR: baselines/{name}.yaml:5: *"])
    result.stdout.no_fnmatch_line("*a body*")


@pytest.mark.usefixtures("forks")
def test_a_worker_reads_a_baseline_before_its_tests(suite: Suite) -> None:
    """No test of a broken file runs, and what other files have runs; the run is red."""
    suite.write(PRINTING)
    suite.write("def test_three():\n    pass\n", "test_other")
    suite.write_baseline(BAD)
    result = suite.run_apart("--graph-budget", "-n1", ret=1, errors=2, passed=1)
    result.stdout.fnmatch_lines(
        ["baselines/test_it.yaml:5: graphs of dynamo is negative (-1); counts begin at 0"]
    )
    result.stdout.no_fnmatch_line("*a body*")


@pytest.mark.usefixtures("forks")
def test_a_broken_baseline_that_no_worker_reads_turns_the_run_red(suite: Suite) -> None:
    suite.write(PRINTING)
    suite.write_baseline(BAD, "other")
    result = suite.run_apart("--graph-budget", "-n1", ret=1, passed=2)
    result.stdout.fnmatch_lines(["*baselines/other.yaml:5: graphs of dynamo is negative*"])


@pytest.mark.usefixtures("forks")
@pytest.mark.parametrize(
    "selected", [("test_it.py",), ("test_it.py::test_one",), ("test_it.py::test_one", "-n1")]
)
def test_baselines_of_tests_that_do_not_run_are_not_read(
    suite: Suite, selected: tuple[str, ...]
) -> None:
    suite.write(PRINTING)
    suite.write("def test_three():\n    pass\n", "test_other")
    suite.write_baseline(BAD, "test_other")
    suite.run_apart("--graph-budget", *selected, ret=0)
