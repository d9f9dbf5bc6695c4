"""The lines that changed since a baseline was committed, by git."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.suite import changed_lines
from pytest_graphbreak.suite.changed_lines import CheckoutLines, GitError, Hunk, changed_since, read
from tests.checkout import commit, git

pytestmark = pytest.mark.pure

DIFF = """diff --git model.py model.py
index 1..2 100644
--- model.py
+++ model.py
@@ -3 +3 @@ def forward
-    a
+    b
@@ -9,0 +10,2 @@
+    c
+    d
--- a/gone.py
+++ gone.py
@@ -4,2 +3,0 @@
-    e
-    f
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with a model and its baseline."""
    (tmp_path / "model.py").write_text("one\ntwo\nthree\n")
    (tmp_path / "notes.txt").write_text("one\n")
    (tmp_path / "test.yaml").write_text("version: 1\n")
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    changed_since.cache_clear()
    return tmp_path


def test_hunks_of_a_diff() -> None:
    assert read(DIFF) == {
        "model.py": (Hunk(3, 1, ["a"]), Hunk(10, 2, [])),
        "gone.py": (Hunk(3, 0, ["e", "f"]),),
    }
    assert read("") == {}


def test_lines_that_are_edited_or_committed_later(checkout: Path) -> None:
    (checkout / "model.py").write_text("one\nTWO\nthree\n")
    commit(checkout)
    (checkout / "model.py").write_text("one\nTWO\nthree\nfour\n")
    (checkout / "notes.txt").write_text("two\n")
    at, found = changed_since(checkout, checkout / "test.yaml")
    assert found == {"model.py": (Hunk(2, 1, ["two"]), Hunk(4, 1, []))}
    assert len(at) == 10


def test_files_are_named_from_the_root_of_the_tests(checkout: Path) -> None:
    (checkout / "below").mkdir()
    (checkout / "below" / "part.py").write_text("one\n")
    (checkout / "below" / "test.yaml").write_text("version: 1\n")
    commit(checkout)
    (checkout / "below" / "part.py").write_text("two\n")
    (checkout / "model.py").write_text("two\n")
    _, found = changed_since(checkout / "below", checkout / "below" / "test.yaml")
    assert found == {"part.py": (Hunk(1, 1, ["one"]),)}


@dataclass
class Item:
    """What of a test is looked at."""

    path: Path


TEST = "import helper\n\ndef test_it():\n    run()\n\ndef test_other():\n    run()\n"


def test_what_is_near_comes_first_and_a_deleted_line_is_shown_as_that(checkout: Path) -> None:
    (checkout / "net.py").write_text("K = 1\n\ndef f(x):\n    y = x\n    return -y\n")
    (checkout / "test_it.py").write_text(TEST)
    commit(checkout)
    (checkout / "test.yaml").write_text("version: 1\ntests:\n")
    commit(checkout)
    (checkout / "net.py").write_text("K = 2\n\ndef f(x):\n    return -y\n")
    (checkout / "test_it.py").write_text(TEST.replace("    run()", "    go()"))
    (checkout / "model.py").write_text("changed, and of no test\n")
    lines = CheckoutLines(
        cast("Any", Item(checkout / "test_it.py")),
        cast("Any", SimpleNamespace(root=checkout)),
        checkout / "test.yaml",
    )
    _, found = lines.changed_lines([Frame("net.py", "f", 3), Frame("test_it.py", "test_it", 4)])
    assert [(one.deleted, one.where.function, one.where.line, one.where.code) for one in found] == [
        (True, "f", 0, "y = x"),
        (False, "test_it", 4, "go()"),
        (False, "<module>", 1, "K = 2"),
        (False, "test_other", 7, "go()"),
    ]


@pytest.mark.parametrize("edited", ["test.yaml", "new.yaml"])
def test_a_baseline_that_is_not_committed_as_it_is_says_nothing(
    checkout: Path, edited: str
) -> None:
    (checkout / edited).write_text("version: 1\ntests:\n")
    (checkout / "model.py").write_text("two\n")
    assert changed_since(checkout, checkout / edited) == ("", {})


def test_without_a_repository_nothing_is_known(tmp_path: Path) -> None:
    changed_since.cache_clear()
    assert changed_since(tmp_path, tmp_path / "test.yaml") == ("", {})


def program(path: Path, text: str, mode: int = 0o755) -> None:
    (path / "git").write_text(text)
    (path / "git").chmod(mode)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("text", "mode", "error"),
    [
        (None, 0, "git is not installed"),
        ("", 0o644, "git: Permission denied"),
        (
            "echo no such thing >&2; echo more >&2; exit 3",
            0o755,
            "git show: no such thing$",
        ),
        ("exit 3", 0o755, "git show: failed$"),
    ],
    ids=["not installed", "not executable", "it says why", "it says nothing"],
)
def test_git_cannot_be_asked(path: Path, text: str | None, mode: int, error: str) -> None:
    if text is not None:
        program(path, f"#!/bin/sh\n{text}\n", mode)
    with pytest.raises(GitError, match=error):
        changed_lines.git(path, "show")


def test_git_hangs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(path, "#!/bin/sh\nwhile :; do :; done\n")
    monkeypatch.setattr(changed_lines, "SLOWEST", 0.05)
    with pytest.raises(GitError, match=r"git log took more than 0\.05 s"):
        changed_lines.git(path, "log")
