"""``--graph-budget-record``: writes what is missing and judges the rest."""

from __future__ import annotations

import json

import pytest

from tests.conftest import BROKEN, CLEAN, Suite

pytestmark = pytest.mark.once


def test_it_judges_what_is_recorded_already(recorded: Suite) -> None:
    before = recorded.baseline()
    recorded.write(BROKEN + BROKEN.replace("test_model", "test_second"))
    recorded.run("--graph-budget-record", passed=1, failed=1)
    now = recorded.baseline()
    assert now.startswith(before)
    assert "test_second" in now


def test_an_improvement_is_left_to_update(suite: Suite) -> None:
    suite.write(BROKEN)
    suite.run("--graph-budget-record")
    before = suite.baseline()
    suite.write(CLEAN)
    suite.run("--graph-budget-record").assert_outcomes(passed=1)
    assert suite.baseline() == before


def test_what_is_repeated_for_a_run_drops_no_entry(recorded: Suite) -> None:
    """As pytest-repeat does it: the tests of this run have cases, the entries have none."""
    before = recorded.baseline()
    recorded.pytester.makeconftest(
        """
        import pytest

        @pytest.fixture(autouse=True)
        def repeat(request): ...

        def pytest_generate_tests(metafunc):
            metafunc.parametrize("repeat", range(2), indirect=True, ids=["1-2", "2-2"])
        """
    )
    recorded.run("--graph-budget-record", ret=1).stdout.fnmatch_lines(
        ["*test_model[[]1-2] was not recorded: its entry in * has no cases*"]
    )
    assert recorded.baseline() == before


def test_a_test_that_gained_parameters_takes_the_place_of_its_entry(recorded: Suite) -> None:
    """A record refuses to remove the entry, so the command that is printed is an update."""
    parametrized = "import pytest\n    @pytest.mark.parametrize('n', [1])\n    def test_model(n)"
    recorded.write(CLEAN.replace("def test_model()", parametrized))
    recorded.run("--graph-budget").stdout.fnmatch_lines(
        ["  record    in place of its entry without parameters: *--graph-budget-update *[[]1]'"]
    )
    result = recorded.run("--graph-budget-update")
    result.stdout.fnmatch_lines(["recorded *::test_model[[]1] *", "pruned *::test_model"])
    for line in ("stale*", "next*"):
        result.stdout.no_fnmatch_line(line)


@pytest.mark.parametrize("option", ["--graph-budget", "--graph-budget-record"])
def test_a_link_out_of_the_repository_is_not_followed(suite: Suite, option: str) -> None:
    suite.write(CLEAN)
    outside = suite.path / "outside"
    inside = suite.path / "repository"
    outside.mkdir()
    inside.mkdir()
    (suite.path / "test_it.py").rename(inside / "test_it.py")
    (inside / "pytest.ini").write_text("[pytest]\n")
    (inside / "baselines").symlink_to(outside)
    result = suite.run(option, str(inside), ret=4)
    result.stderr.fnmatch_lines(["ERROR: */baselines: a symbolic link leads out of the checkout*"])
    suite.run("--graph-budget-record", f"--graph-budget-dir={outside}", str(inside), ret=0)
    assert [path.name for path in outside.glob("*.yaml")] == ["test_it.yaml"]


@pytest.mark.usefixtures("forks")
def test_a_run_that_is_interrupted_twice_writes_no_baseline(suite: Suite) -> None:
    """Nor is its report one of a run that ended well."""
    suite.write(
        f"{CLEAN}\n    def test_long(): import os, signal; os.kill(os.getpid(), signal.SIGINT)"
    )
    suite.pytester.makeconftest(
        """
        import os, signal
        def pytest_keyboard_interrupt(): os.kill(os.getpid(), signal.SIGINT)
        """
    )
    options = ("--graph-budget-record", "--graph-budget-report=graphs.json")
    result = suite.run_apart(*options)
    assert result.ret != 0
    assert not suite.has_baseline()
    session = json.loads((suite.path / "graphs.json").read_text())["session"]
    assert session["exit"] == 2


def test_a_run_that_a_test_ends_writes_no_baseline(suite: Suite) -> None:
    suite.write(f"{CLEAN}\n    def test_end(): import pytest; pytest.exit('now', 0)")
    suite.run("--graph-budget-record")
    assert not suite.has_baseline()
