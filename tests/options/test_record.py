"""``--graph-budget-record``: writes what is missing and judges the rest."""

from __future__ import annotations

import pytest

from tests.conftest import BROKEN, CLEAN, Suite

pytestmark = pytest.mark.once


def test_it_judges_what_is_recorded_already(suite: Suite) -> None:
    suite.write(CLEAN)
    suite.run("--graph-budget-record")
    before = suite.baseline()
    suite.write(BROKEN + BROKEN.replace("test_model", "test_second"))
    result = suite.run("--graph-budget-record")
    result.assert_outcomes(passed=1, failed=1)
    now = suite.baseline()
    assert now.startswith(before)
    assert "test_second" in now


def test_an_improvement_is_left_to_update(suite: Suite) -> None:
    suite.write(BROKEN)
    suite.run("--graph-budget-record")
    before = suite.baseline()
    suite.write(CLEAN)
    suite.run("--graph-budget-record").assert_outcomes(passed=1)
    assert suite.baseline() == before


def test_what_is_repeated_for_a_run_drops_no_entry(suite: Suite) -> None:
    """As pytest-repeat does it: the tests of this run have cases, the entries have none."""
    suite.write(CLEAN)
    suite.run("--graph-budget-record")
    before = suite.baseline()
    suite.pytester.makeconftest(
        """
        import pytest

        @pytest.fixture(autouse=True)
        def repeat(request): ...

        def pytest_generate_tests(metafunc):
            metafunc.parametrize("repeat", range(2), indirect=True, ids=["1-2", "2-2"])
        """
    )
    result = suite.run("--graph-budget-record")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["*test_model[[]1-2] was not recorded: its entry in * has no cases*"]
    )
    assert suite.baseline() == before
