"""``graphbreak compare``: two runs beside each other, by cause."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Workspace
from tests.reports import a_report, a_test

pytestmark = pytest.mark.pure


def test_a_directory_of_reports_is_one_run(workspace: Workspace) -> None:
    workspace.report("b/1.json", a_report(a_test("t.py::a")))
    workspace.report("b/2.json", a_report(a_test("t.py::b")))
    workspace.report("after.json", a_report(a_test("t.py::a"), a_test("t.py::b", 2)))
    said = workspace.run("compare", "b", "after.json")
    assert "2 tests compared, 1 with more graphs" in said.out
    assert "  dynamo 1 -> 2, breaks 0 -> 1   t.py::b" in said.out


@pytest.mark.parametrize(
    ("after", "code"), [(a_test(), 0), (a_test(dynamo=2), 1), (a_test("t.py::x"), 1)]
)
def test_the_exit_code_is_for_scripts_that_ask(
    after: object, code: int, workspace: Workspace
) -> None:
    workspace.report("before.json", a_report(a_test()))
    workspace.report("after.json", a_report(after))  # type: ignore[arg-type]
    assert workspace.run("compare", "before.json", "after.json").code == 0
    assert workspace.run("compare", "--exit-code", "before.json", "after.json").code == code
