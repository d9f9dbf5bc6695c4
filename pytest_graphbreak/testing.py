"""For tests of what is built on the gate: the fixture ``gated_suite`` runs a small suite under it.

A ``conftest.py`` that names both plugins has the fixture::

    pytest_plugins = ["pytester", "pytest_graphbreak.testing"]

and a test writes a suite, runs it, and looks at what was counted::

    def test_my_backend_makes_one_graph(gated_suite: GatedSuite) -> None:
        gated_suite.write(PROGRAM)
        outcome = gated_suite.run()
        assert outcome.records["test_it.py::test_model"].graphs == {"dynamo": 1}
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from _pytest import pytester as _pytester
from msgspec import Struct

from pytest_graphbreak.artifacts.incoming import load_all
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.report import TestReport

REPORT = "graphs.json"


class GatedRun(Struct, frozen=True):
    """A run: what pytest says of it, and the report of each measured test by its node id."""

    pytest: pytest.RunResult
    tests: Mapping[str, TestReport]

    @property
    def records(self) -> dict[str, Record]:
        """What was counted in each test, by its node id."""
        return {nodeid: test.record for nodeid, test in self.tests.items()}


class GatedSuite:
    """A directory with a small suite, which is run in this process.

    Torch is not imported anew: Dynamo is reset before each test of the suite, as in any run.
    """

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.path: Path = pytester.path

    def write(self, source: str, name: str = "test_it") -> None:
        """Write the module ``name`` of the suite; the source may be indented."""
        self.pytester.makepyfile(**{name: textwrap.dedent(source)})

    def run_pytest(self, *arguments: str) -> pytest.RunResult:
        """Run pytest in the directory, with these arguments and no cache."""
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(_pytester, "SysModulesSnapshot", LibrariesStay)
            return self.pytester.runpytest_inprocess("-p", "no:cacheprovider", *arguments)

    def run(self, *arguments: str) -> GatedRun:
        """Run pytest with a report. Raises ``LookupError`` if there is none: pytest says why."""
        report = self.path / REPORT
        report.unlink(missing_ok=True)
        run = self.run_pytest(f"--graph-budget-report={REPORT}", *arguments)
        if not report.exists():
            raise LookupError(f"{report}: pytest ended with {run.ret} and wrote no report")
        (written,) = load_all([str(report)])
        return GatedRun(run, {test.nodeid: test for test in written.tests})


@pytest.fixture
def gated_suite(pytester: pytest.Pytester) -> GatedSuite:
    """A directory for a small suite that is run under the gate."""
    return GatedSuite(pytester)


class LibrariesStay(_pytester.SysModulesSnapshot):
    """pytester forgets what a run imported; torch cannot be imported twice in one process.

    So only modules of the suite itself are forgotten, by the names ``test_*`` and ``conftest*``.
    All others stay, whatever ``preserve`` says of them.
    """

    def __init__(self, preserve: Callable[[str], bool] | None = None) -> None:
        super().__init__(lambda name: not name.startswith(("test_", "conftest")))
