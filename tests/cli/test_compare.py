"""``graphbreak compare``: two runs beside each other, by cause."""

from __future__ import annotations

import io
import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Workspace
from tests.reports import a_report, a_test


def test_several_reports_a_side(workspace: Workspace) -> None:
    workspace.report("b/1.json", a_report(a_test("t.py::a")))
    workspace.report("b/2.json", a_report(a_test("t.py::b")))
    workspace.report("after.json", a_report(a_test("t.py::a"), a_test("t.py::b", 2)))
    by_name = workspace.run("compare", "--before", "b/1.json", "b/2.json", "--after", "after.json")
    assert "2 tests compared, 1 with more graphs; dynamo 2 -> 3" in by_name.out
    assert workspace.run("compare", "b", "after.json").out == by_name.out


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


@pytest.mark.parametrize(
    "args",
    [
        (),
        ("a.json",),
        ("a.json", "b.json", "c.json"),
        ("--before", "a.json"),
        ("a", "--after", "b"),
    ],
)
def test_it_says_how_both_sides_are_named(args: tuple[str, ...], workspace: Workspace) -> None:
    said = workspace.run("compare", *args)
    assert said.code == 2
    assert "name two reports, BEFORE and AFTER" in said.err


def test_a_bad_report_is_named(workspace: Workspace) -> None:
    workspace.report("a.json", a_report(a_test()))
    (workspace.path / "b.json").write_text("[]")
    said = workspace.run("compare", "a.json", "b.json")
    assert said.code == 2
    assert "b.json: the report: Expected `object`, got `array`" in said.err


T = "tests/test_a.py::test_b"


@pytest.fixture
def updated(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A repository whose baselines are those of ``before.json``; ``after.json`` broke a test."""
    monkeypatch.setattr("sys.stdin", io.StringIO())
    workspace.report("before.json", a_report(a_test(T), a_test("tests/test_b.py::t[ü]")))
    after = a_report(a_test(T, 2), a_test("tests/test_b.py::t[ü]"), a_test("tests/test_b.py::new"))
    workspace.report("after.json", after)
    assert workspace.run("accept", "--yes", "before.json").code == 0
    for command in (["init", "-q"], ["add", "-A"], [*COMMITTER, "commit", "-qm", "before"]):
        subprocess.run(["git", *command], cwd=workspace.path, check=True)
    return workspace


COMMITTER = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
NOTE = """\
Graph baselines of 2 tests

2 tests compared, 1 with more graphs.

New:

+ GB0124  Unsupported Tensor.item() call
  models/head.py:10 in Head.forward
      if scores[0].item():
  1 test, +1 dynamo graph, in tests/test_a.py

1 test recorded for the first time.
"""


def git(workspace: Workspace, *args: str) -> str:
    done = subprocess.run(["git", *args], cwd=workspace.path, capture_output=True, check=True)
    return done.stdout.decode()


def test_baselines_are_updated_with_a_message_that_says_why(updated: Workspace) -> None:
    said = updated.run(
        *("compare", "before.json", "after.json", "--update-baselines", "--yes"),
        *("--message", "note.txt"),
    )
    assert said.code == 0
    assert "Wrote 2 changes in 2 files below baselines." in said.out
    assert (updated.path / "note.txt").read_text() == NOTE
    assert updated.run("check", "after.json").code == 0
    assert "Commit" not in said.out
    again = updated.run("compare", "before.json", "after.json", "--update-baselines", "--yes")
    assert "Nothing to write" in again.out


def test_the_message_is_printed_where_it_has_no_file(updated: Workspace) -> None:
    said = updated.run("compare", "before.json", "after.json", "--update-baselines", "--yes")
    assert said.out.endswith(f"The commit message:\n\n{NOTE}\n")


def test_nothing_is_written_unasked(updated: Workspace) -> None:
    before = updated.files()
    said = updated.run("compare", "before.json", "after.json", "--update-baselines")
    assert said.code == 2
    assert "graphbreak compare: would write 2 changes in 2 files" in said.err
    for how in (["--update-baselines"], ["--patch", "b.patch"]):
        words = ("--dry-run", "--message", "note.txt")
        dry = updated.run("compare", "before.json", "after.json", *how, *words)
        assert dry.code == 0
    assert "+ new" in dry.out
    assert updated.files() == before


def test_a_patch_makes_what_an_update_writes(updated: Workspace) -> None:
    said = updated.run("compare", "before.json", "after.json", "--patch", "b.patch")
    assert said.code == 0
    assert "b.patch holds 2 changes in 2 files below baselines: git apply b.patch" in said.out
    assert git(updated, "status", "--porcelain") == "?? b.patch\n"
    text = (updated.path / "b.patch").read_text()
    assert text.startswith(NOTE)
    git(updated, "apply", "b.patch")
    patched = git(updated, "diff")
    git(updated, "checkout", "-q", ".")
    updated.run("compare", "before.json", "after.json", "--update-baselines", "--yes")
    assert git(updated, "diff") == patched


def test_a_patch_from_below_the_root_of_the_repository(updated: Workspace) -> None:
    """The root of pytest may be a directory of the repository."""
    below = updated.path / "sub"
    (below / "tests").mkdir(parents=True)
    (below / "pytest.ini").write_text("[pytest]\n")
    (below / "tests/test_a.py").write_text("")
    above = Path.cwd()
    os.chdir(below)
    try:
        updated.run("compare", "../before.json", "../after.json", "--patch", "b.patch")
    finally:
        os.chdir(above)
    git(updated, "apply", "sub/b.patch")
    assert (below / "baselines/tests/test_a.yaml").is_file()


def test_reports_that_cannot_be_accepted_update_nothing(updated: Workspace) -> None:
    updated.report("odd.json", a_report(a_test("../evil.py::t")))
    said = updated.run("compare", "before.json", "odd.json", "--update-baselines", "--yes")
    assert said.code == 2
    assert "odd.json" in said.err
