"""Workers that crash, children that die: the tests are named as unmeasured and the run is red."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

SOURCE = """
import os, torch

def compiled():
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(3))

def test_before(): compiled()
def test_dies(): compiled(); os._exit(3)
def test_after(): compiled()
"""

needs_forked = pytest.mark.skipif(
    not importlib.util.find_spec("pytest_forked"), reason="pytest-forked is not installed"
)


# pytest-forked is in the xla environment only.
WAYS = [
    pytest.param(("-n1",), marks=pytest.mark.once),
    pytest.param(("--forked",), marks=needs_forked),
]


REWRITES = """
import pytest

@pytest.hookimpl(hookwrapper=True, trylast=True)
def pytest_runtest_logreport(report):
    if report.when == "???":
        report.when = "teardown"  # so that junit writes its properties
    yield
"""
"""As tests/runner/conftest.py of tt-xla does."""


@pytest.mark.usefixtures("forks")
@pytest.mark.parametrize("args", WAYS)
@pytest.mark.parametrize("conftest", ["", REWRITES], ids=["plain", "called a teardown"])
def test_a_process_that_dies(
    pytester: pytest.Pytester, args: tuple[str, ...], conftest: str
) -> None:
    pytester.makepyfile(test_it=SOURCE)
    pytester.makeconftest(conftest)
    pytester.runpytest_subprocess("--graph-budget-update", *args)
    written = (pytester.path / "baselines" / "test_it.yaml").read_text()
    assert "test_before" in written
    assert "test_dies" not in written
    result = pytester.runpytest_subprocess(
        "--graph-budget", "--graph-budget-report=graphs.json", *args
    )
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["unmeasured test_it.py::test_dies   its process died in this test"]
    )
    report = json.loads(Path("graphs.json").read_text())
    tests = {test["nodeid"]: test for test in report["tests"]}
    assert report["session"]["unmeasured"] == ["test_it.py::test_dies"]
    assert tests["test_it.py::test_dies"]["outcome"] == "crashed"
    assert tests["test_it.py::test_before"]["outcome"] == "passed"
    assert tests["test_it.py::test_after"]["graphs"] == {"dynamo": 1}
    result.stdout.no_fnmatch_line("*crash of the runtime*")


@pytest.mark.once
@pytest.mark.usefixtures("forks")
def test_a_test_that_nobody_measured_is_named(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it="def test_it(): pass\n")
    pytester.makeconftest(
        """
import pytest

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report):
    vars(report).pop("graphbreak", None)  # as if the test had run where the plugin was not
"""
    )
    pytester.mkdir("baselines")
    result = pytester.runpytest_subprocess("--graph-budget")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["unmeasured test_it.py::test_it"])
