"""``graphbreak report``: pages from any report."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.conftest import Workspace
from tests.reports import a_report, a_test, over

pytestmark = pytest.mark.pure


def test_without_a_page_it_tells_the_main_things(workspace: Workspace) -> None:
    tests = (over(), a_test("tests/test_b.py::fine", verdict="ok"))
    workspace.report("one.json", a_report(*tests, unmeasured=["t.py::c"], stale=["t.py::s"]))
    said = workspace.run("report", "one.json", code=0)
    assert said.out.split("\n") == [
        "over       tests/test_a.py::test_b   dynamo 1 -> 3, 2 graph breaks",
        "unmeasured t.py::c",
        "stale      t.py::s",
        "2 tests on cpu: 1 over, 1 ok",
        "",
    ]


def test_shards_are_one_run_and_branches_are_two(workspace: Workspace) -> None:
    workspace.report("1.json", a_report(a_test("t.py::a")))
    workspace.report("2.json", a_report(a_test("t.py::b")))
    workspace.report("main.json", a_report(a_test("t.py::a"), a_test("t.py::b")))
    said = workspace.run("report", "1.json", "2.json", "main.json")
    assert "2 tests on cpu (1.json): 2 not judged" in said.out
    assert "2 tests on cpu (main.json): 2 not judged" in said.out


def test_what_is_no_test_is_shown_too(workspace: Workspace) -> None:
    """`graphbreak run` and `analyze` name scripts and logs by their paths."""
    workspace.report("run.json", a_report(a_test("/home/me/train.py", 3)))
    assert "1 test on cpu" in workspace.run("report", "run.json").out
    assert workspace.run("report", "run.json", "--html", "p.html").code == 0


def test_an_old_terminal_gets_what_it_can_show(workspace: Workspace) -> None:
    workspace.report("one.json", a_report(over("tests/test_ü.py::t[→]")))
    done = subprocess.run(
        [sys.executable, "-m", "pytest_graphbreak", "report", "one.json"],
        env={"PYTHONIOENCODING": "ascii", "PATH": ""},
        capture_output=True,
        check=True,
    )
    assert rb"tests/test_\xfc.py::t[\u2192]" in done.stdout


@pytest.mark.parametrize(
    "command",
    [
        ("report", "one.json", "--html", "p.html", "--markdown", "c.md"),
        ("check", "one.json"),
        ("accept", "one.json", "--yes"),
    ],
    ids=lambda command: command[0],
)
def test_reports_are_read_without_torch_and_pytest(
    command: tuple[str, ...], workspace: Workspace
) -> None:
    """The action installs neither torch nor what needs it."""
    (workspace.path / "baselines").mkdir()
    workspace.report("one.json", a_report(over()))
    script = (
        "import sys; sys.modules.update(torch=None, torch_xla=None, pytest=None);"
        "from pytest_graphbreak.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *command], capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr
    assert done.returncode == {"report": 0, "check": 1, "accept": 0}[command[0]]
