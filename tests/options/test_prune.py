"""``--graph-budget-prune``: drops entries whose test is gone, on complete runs only."""

from __future__ import annotations

import pytest

from tests.conftest import CLEAN, Suite

pytestmark = pytest.mark.once

TWO = CLEAN + CLEAN.replace("test_model", "test_second")


@pytest.fixture
def gone(suite: Suite) -> Suite:
    """A suite whose baseline knows a test that is gone."""
    suite.write(TWO)
    suite.run("--graph-budget-update").assert_outcomes(passed=2)
    suite.write(CLEAN)
    return suite


def test_strict_fails_a_green_run(gone: Suite) -> None:
    gone.run("--graph-budget", "-o", "graph_budget_strict=true", passed=1, ret=1)


def test_it_is_dropped(gone: Suite) -> None:
    gone.run("--graph-budget-prune").stdout.fnmatch_lines(["pruned *test_it.py::test_second*"])
    assert "test_second" not in gone.baseline()
    assert "test_model" in gone.baseline()


def test_a_file_that_is_gone_takes_its_baseline_with_it(suite: Suite) -> None:
    suite.write(CLEAN)
    suite.write(CLEAN, "test_old")
    suite.run("--graph-budget-update")
    (suite.path / "test_old.py").unlink()
    suite.run("--graph-budget").stdout.fnmatch_lines(["stale *test_old.yaml*"])
    suite.run("--graph-budget-prune")
    assert not suite.has_baseline("test_old")
    assert suite.has_baseline()


@pytest.mark.parametrize(
    "args",
    [
        ("-k", "model"),
        ("-m", "not slow"),
        ("-x",),
        ("--maxfail=3",),
        ("test_it.py::test_model",),
        ("--deselect=test_it.py::nothing",),
    ],
    ids=lambda args: " ".join(args),
)
def test_a_partial_run_judges_nothing_stale(gone: Suite, args: tuple[str, ...]) -> None:
    result = gone.run("--graph-budget-prune", *args)
    result.stdout.no_fnmatch_line("stale*")
    result.stdout.no_fnmatch_line("pruned*")
    assert "test_second" in gone.baseline()


def test_last_failed_is_partial(gone: Suite) -> None:
    gone.pytester.runpytest_inprocess("--graph-budget-prune", "--lf")
    assert "test_second" in gone.baseline()


def test_a_file_that_a_conftest_thins_out_is_not_complete(gone: Suite) -> None:
    gone.write(TWO.replace("test_second", "test_third"))
    gone.pytester.makeconftest("def pytest_collection_modifyitems(items):\n    del items[1:]\n")
    gone.run("--graph-budget-prune")
    assert "test_second" in gone.baseline()


def test_a_file_that_was_not_run_keeps_its_baseline(suite: Suite) -> None:
    suite.write(CLEAN)
    suite.write(TWO, "test_other")
    suite.run("--graph-budget-update")
    suite.write(CLEAN, "test_other")
    suite.run("--graph-budget-prune", "test_it.py")
    assert "test_second" in suite.baseline("test_other")


@pytest.mark.usefixtures("forks")
def test_xdist_workers_tell_what_they_collected(gone: Suite) -> None:
    result = gone.run_apart("--graph-budget-prune", "-n2")
    result.stdout.fnmatch_lines(["pruned *test_it.py::test_second*"])
    assert "test_second" not in gone.baseline()


def test_what_only_another_profile_has_is_not_judged(gone: Suite) -> None:
    """A case that is there on another torch or device alone: this run cannot say."""
    other = ("--graph-budget-profile=other", "--graph-budget-prune")
    gone.run("--graph-budget-update", *other)
    assert "test_second" in gone.baseline()
    gone.run("--graph-budget-prune")
    assert "test_second" not in gone.baseline()


def test_a_file_that_lost_all_its_tests(suite: Suite) -> None:
    suite.write(CLEAN)
    suite.pytester.makepyfile(test_other="def test_other(): ...")
    suite.run("--graph-budget-record")
    suite.write("import pytest; pytest.skip('not here', allow_module_level=True)")
    assert "stale" not in suite.run("--graph-budget").stdout.str()
    suite.write("import torch")
    suite.run("--graph-budget").stdout.fnmatch_lines(["stale *::test_model"])
    assert "stale" not in suite.run("--graph-budget", "-k", "other").stdout.str()
    suite.run("--graph-budget-prune")
    assert not list((suite.path / "baselines").rglob("*.yaml"))
