"""Beside other plugins and without some: unittest, subtests, xfail, nested runs, no terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import BROKEN, CLEAN, Suite

pytestmark = pytest.mark.once


def test_unittest_classes(suite: Suite) -> None:
    suite.write_tests(
        """
class TestCase(unittest.TestCase):
    def setUp(self): run(clean)
    @pytest.mark.max_graphs(5)
    def test_passes(self): run(clean)
    @pytest.mark.max_graphs(1)
    def test_gate(self): run(broken)
    @pytest.mark.max_graphs(1)
    def test_own(self): run(broken); self.fail("own")
    @pytest.mark.max_graphs(1)
    def test_skips(self): self.skipTest("no")
    @unittest.expectedFailure
    def test_expected(self): self.fail("own")
"""
    )
    tests = suite.tests()
    found = {name.split("::")[1]: (t["outcome"], t["failed_by"]) for name, t in tests.items()}
    assert found == {
        "test_passes": ("passed", None),
        "test_gate": ("failed", "gate"),
        "test_own": ("failed", "test"),
        "test_skips": ("skipped", None),
        "test_expected": ("xfailed", None),
    }
    # setUp runs inside the call phase of a unittest class.
    assert tests["TestCase::test_gate"]["graphs"] == {"dynamo": 3}


def test_xfail_takes_the_gates_failure_as_the_tests_own(suite: Suite) -> None:
    suite.write_tests(
        """
@pytest.mark.xfail
@pytest.mark.max_graphs(1)
def test_over(): run(broken)

@pytest.mark.xfail(strict=True)
@pytest.mark.max_graphs(1)
def test_over_strict(): run(broken)

@pytest.mark.xfail(raises=ValueError)
@pytest.mark.max_graphs(1)
def test_other_error(): run(broken)

@pytest.mark.xfail
def test_xpass(): run(broken)

@pytest.mark.xfail(False, reason="not here")
def test_no_xfail(): run(broken)
"""
    )
    suite.run().assert_outcomes(xfailed=2, failed=1, xpassed=1, passed=1)
    suite.run("--graph-budget").assert_outcomes(xfailed=2, failed=2, xpassed=1)
    suite.run("--graph-budget-update").assert_outcomes(xfailed=2, failed=1, xpassed=1, passed=1)


def test_subtests(suite: Suite) -> None:
    suite.write_tests(
        """
@pytest.mark.max_graphs(1)
def test_sub(subtests):
    for i in range(3):
        with subtests.test(i=i):
            run(broken)

def test_failing_sub(subtests):
    run(clean)
    with subtests.test("one"):
        assert False

@pytest.mark.max_graphs(1)
def test_both(subtests):
    run(broken)
    with subtests.test("one"):
        assert False
"""
    )
    tests = suite.tests()
    assert len(tests) == 3
    assert (tests["test_sub"]["failed_by"], tests["test_sub"]["graphs"]) == ("gate", {"dynamo": 2})
    assert tests["test_failing_sub"]["failed_by"] == "test"
    assert tests["test_both"]["failed_by"] == "test"


@pytest.mark.parametrize(
    "args",
    [("-p", "no:terminal"), ("-p", "no:cacheprovider"), ("-p", "no:logging")],
    ids=lambda args: " ".join(args),
)
def test_without_this_and_that(suite: Suite, args: tuple[str, ...]) -> None:
    suite.write(CLEAN)
    suite.run("--graph-budget-update", *args)
    assert suite.has_baseline()
    assert suite.run("--graph-budget", *args).ret == 0
    suite.write(BROKEN)
    assert suite.run("--graph-budget", *args).ret == 1


def test_windows_nest(suite: Suite) -> None:
    suite.write_tests(
        """
def test_blocks(graph_budget):
    with graph_budget() as outer:
        run(clean)
        with graph_budget(max_graphs=2) as inner:
            run(broken)
        assert (inner.graphs, inner.breaks) == (2, 1)
        with graph_budget(max_graphs=0) as nothing:
            pass
    assert outer.graphs == 3
    assert nothing.graphs == 0

def test_block_raises(graph_budget):
    with graph_budget(max_graphs=0):
        run(broken)
        raise ValueError("own")
"""
    )
    tests = suite.tests()
    assert tests["test_blocks"]["graphs"] == {"dynamo": 3}
    assert tests["test_blocks"]["outcome"] == "passed"
    assert tests["test_block_raises"]["failed_by"] == "test"
    suite.run("-k", "raises").stdout.fnmatch_lines(["*ValueError: own*"])


def test_a_pytest_run_inside_a_measured_test(suite: Suite) -> None:
    suite.write(
        '''
        import torch
        pytest_plugins = ["pytester"]

        def test_outer(pytester):
            pytester.makepyfile("""
                import torch, pytest
                @pytest.mark.max_graphs(1)
                def test_inner():
                    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(3))
            """)
            torch.compile(lambda x: x + 2, backend="eager")(torch.ones(3))
            result = pytester.runpytest_inprocess("--graph-budget-report=inner.json")
            result.assert_outcomes(passed=1)
            torch.compile(lambda x: x + 3, backend="eager")(torch.ones(3))
        '''
    )
    report = suite.report()
    (outer,) = report["tests"]
    assert outer["outcome"] == "passed", outer
    assert outer["graphs"] == {"dynamo": 3}
    assert not outer["errors"]


def test_reports_hold_exact_builtins_only(suite: Suite) -> None:
    suite.write(BROKEN)
    suite.pytester.makeconftest(
        """
def exact(value):
    if type(value) is dict:
        assert all(type(key) is str for key in value)
        for item in value.values(): exact(item)
    elif type(value) in (list, tuple):
        for item in value: exact(item)
    else:
        assert value is None or type(value) in (str, int, float, bool), type(value)

def pytest_runtest_logreport(report):
    exact(report.graphbreak)
    for name, value in report.user_properties:
        exact(name), exact(value)
"""
    )
    assert suite.run("--graph-budget-update").ret == 0


def test_an_installed_plugin_that_is_not_used_imports_little(pytester: pytest.Pytester) -> None:
    """msgspec is imported: with it, all classes are made in less time than dataclasses are."""
    pytester.makepyfile("def test_it(): pass\n")
    pytester.makeconftest(
        """
import sys, json

def pytest_unconfigure():
    heavy = [n for n in ("torch", "yaml", "filelock", "libcst") if n in sys.modules]
    open("heavy.json", "w").write(json.dumps(heavy))
"""
    )
    for args in ((), ("--collect-only",)):
        assert pytester.runpytest_subprocess(*args).ret == 0
        assert json.loads(Path("heavy.json").read_text()) == []
