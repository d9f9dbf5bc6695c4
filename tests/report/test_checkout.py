"""Lines of a checkout: only what the report quotes, and what changed since a baseline."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_graphbreak.model.items import Frame
from pytest_graphbreak.report.checkout import (
    CheckoutLines,
    CheckoutSources,
    Hunk,
    changed_since,
    read_hunks,
)
from tests.checkout import commit, git

pytestmark = pytest.mark.pure


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    (root / "model.py").write_text("".join(f"line_{number} = 1\n" for number in range(1, 31)))
    return root


def at(line: int, file: str = "model.py") -> Frame:
    return Frame(file, "f", line, f"line_{line} = 1")


@pytest.mark.parametrize(("line", "first", "last"), [(1, 1, 4), (10, 7, 13), (30, 27, 30)])
def test_lines_around_the_place(line: int, first: int, last: int, root: Path) -> None:
    number, lines = CheckoutSources(root).excerpt(at(line)) or (0, [])
    assert number == first
    shown = [f"line_{number} = 1" for number in range(first, last + 1)]
    assert [text for text in lines if text] == shown


def test_another_version_of_the_file_is_not_shown_and_none_without_a_checkout(root: Path) -> None:
    assert CheckoutSources(root).excerpt(Frame("model.py", "f", 10, "other = 1")) is None
    assert CheckoutSources(root).excerpt(at(999)) is None
    assert CheckoutSources(None).excerpt(at(10)) is None


@pytest.mark.parametrize(
    "file",
    [
        *("../secret.py", "sub/../../secret.py", "PARENT/secret.py", "link.py"),
        *("secret.txt", ".git/config", "\0.py", ".", ""),
    ],
)
def test_nothing_else_of_this_machine_is_shown(file: str, root: Path) -> None:
    text = (root / "model.py").read_text()
    (root.parent / "secret.py").write_text(text)
    (root / "secret.txt").write_text(text)
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text(text)
    (root / "link.py").symlink_to(root.parent / "secret.py")
    where = at(10, file.replace("PARENT", str(root.parent)))
    assert CheckoutSources(root).excerpt(where) is None


def test_files_that_are_no_text_are_not_shown(root: Path) -> None:
    (root / "bytes.py").write_bytes(b"\xff\xfe" * 40)
    (root / "large.py").write_text("line_1 = 1\n" * 400_000)
    assert CheckoutSources(root).excerpt(at(1, "bytes.py")) is None
    assert CheckoutSources(root).excerpt(at(1, "large.py")) is None


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
+++ a/gone.py
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
    assert read_hunks(DIFF) == {
        "model.py": (Hunk(3, 1, ["a"]), Hunk(10, 2, [])),
        "a/gone.py": (Hunk(3, 0, ["e", "f"]),),
    }
    assert read_hunks("") == {}


def test_lines_that_are_edited_or_committed_later(checkout: Path) -> None:
    (checkout / "model.py").write_text("one\nTWO\nthree\n")
    commit(checkout)
    (checkout / "model.py").write_text("one\nTWO\nthree\nfour\n")
    (checkout / "notes.txt").write_text("two\n")
    at, found = changed_since(checkout, checkout / "test.yaml")
    assert found == {"model.py": (Hunk(2, 1, ["two"]), Hunk(4, 1, []))}
    assert len(at) == 10


def test_names_and_settings_of_git_that_are_unusual(checkout: Path) -> None:
    names = ("a b.py", "mö.py", "two.py")
    for name in names:
        (checkout / name).write_text("one\ntwo\nthree\nfour\nfive\n")
    (checkout / "test.yaml").write_text("version: 1 # 2\n")
    commit(checkout)
    git(checkout, "config", "diff.interHunkContext", "3")
    for name in names:
        (checkout / name).write_text("ONE\ntwo\nthree\nFOUR\nfive\n")
    _, hunks = changed_since(checkout, checkout / "test.yaml")
    assert hunks == dict.fromkeys(names, (Hunk(1, 1, ["one"]), Hunk(4, 1, ["four"])))


def test_files_are_named_from_the_root_of_the_tests(checkout: Path) -> None:
    (checkout / "below").mkdir()
    (checkout / "below" / "part.py").write_text("one\n")
    (checkout / "below" / "test.yaml").write_text("version: 1\n")
    commit(checkout)
    (checkout / "below" / "part.py").write_text("two\n")
    (checkout / "model.py").write_text("two\n")
    _, found = changed_since(checkout / "below", checkout / "below" / "test.yaml")
    assert found == {"part.py": (Hunk(1, 1, ["one"]),)}


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
    lines = CheckoutLines(checkout, str(checkout / "test_it.py"), checkout / "test.yaml")
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


def test_a_git_that_is_missing_or_hangs_says_nothing(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert changed_since(checkout, checkout / "test.yaml") == ("", {})
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").write_text("#!/bin/sh\nwhile :; do :; done\n")
    (tmp_path / "bin" / "git").chmod(0o755)
    monkeypatch.setattr("pytest_graphbreak.report.checkout.SLOWEST", 0.05)
    changed_since.cache_clear()
    assert changed_since(checkout, checkout / "test.yaml") == ("", {})
