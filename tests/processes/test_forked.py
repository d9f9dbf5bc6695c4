"""``--forked``: a process for each test, which should not pay for us again."""

from __future__ import annotations

import pytest

from tests.conftest import CLEAN, Suite
from tests.examples import sample

pytest.importorskip("pytest_forked")

CONFTEST = """
import os, sys
import pytest

PARENT = os.getpid()

@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    session.config.before = set(sys.modules)

def pytest_runtest_teardown(item):
    assert os.getpid() != PARENT
    new = sorted(name for name in set(sys.modules) - item.config.before if "graphbreak" in name)
    with open("new.txt", "a") as file:
        file.write(" ".join([item.name, *new]) + "\\n")
"""


GATE = ("--graph-budget",)


@pytest.mark.parametrize(
    "options",
    sample([GATE, ("--graph-budget-report=graphs.json",), ()], [GATE]),
    ids=str,
)
def test_a_child_imports_none_of_our_modules(suite: Suite, options: tuple[str, ...]) -> None:
    """In a Python that is new: no other run has imported anything."""
    suite.write(CLEAN.replace("def test_model", "import pytest\n\n    @MARK\n    def test_model"))
    source = (suite.path / "test_it.py").read_text()
    (suite.path / "test_it.py").write_text(source.replace("MARK", "pytest.mark.max_graphs(1)"))
    suite.pytester.makeconftest(CONFTEST)
    suite.pytester.mkdir("baselines")
    result = suite.pytester.runpytest_subprocess("--forked", *options)
    result.assert_outcomes(passed=1)
    assert (suite.path / "new.txt").read_text() == "test_model\n"
