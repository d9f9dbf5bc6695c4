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


def test_it_judges_by_what_check_judges_by(workspace: Workspace) -> None:
    """Of the same two reports both name the same place and the same counts."""
    workspace.report("before.json", a_report(a_test()))
    workspace.report("after.json", a_report(a_test(dynamo=3)))
    compared = workspace.run("compare", "before.json", "after.json")
    checked = workspace.run("check", "after.json", "--against", "before.json")
    for said in (compared, checked):
        assert "dynamo 1 -> 3" in said.out


def test_a_comment(workspace: Workspace) -> None:
    workspace.report("before.json", a_report(a_test()))
    said = workspace.run("compare", "before.json", "before.json", "--markdown", "out/c.md")
    assert (said.code, said.out) == (0, "Wrote out/c.md.\n")
    assert (
        "### Two runs: 1 test compared, no difference" in (workspace.path / "out/c.md").read_text()
    )
    workspace.report("file", a_report())
    assert (
        workspace.run("compare", "before.json", "before.json", "--markdown", "file/c.md").code == 2
    )


def test_a_bad_report_is_named(workspace: Workspace) -> None:
    workspace.report("a.json", a_report(a_test()))
    (workspace.path / "b.json").write_text("[]")
    said = workspace.run("compare", "a.json", "b.json")
    assert said.code == 2
    assert "b.json: the report: Expected `object`, got `array`" in said.err
