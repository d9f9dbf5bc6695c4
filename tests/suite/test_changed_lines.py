"""The lines that changed since a baseline was committed, by git."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pytest_graphbreak.suite.changed_lines import ChangedLines, changed_since, edited_since, read

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
    run(tmp_path, "init", "-q")
    commit(tmp_path)
    changed_since.cache_clear()
    return tmp_path


def run(folder: Path, *args: str) -> None:
    user = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *user, *args], cwd=folder, check=True, capture_output=True)


def commit(folder: Path) -> None:
    run(folder, "add", "-A")
    run(folder, "commit", "-q", "-m", "x")


def test_new_lines_of_a_diff_and_those_around_what_was_deleted() -> None:
    assert read(DIFF) == {"model.py": (3, 10, 11), "gone.py": (3, 4)}
    assert read("") == {}


def test_lines_that_are_edited_or_committed_later(checkout: Path) -> None:
    (checkout / "model.py").write_text("one\nTWO\nthree\n")
    commit(checkout)
    (checkout / "model.py").write_text("one\nTWO\nthree\nfour\n")
    (checkout / "notes.txt").write_text("two\n")
    found = changed_since(checkout, checkout / "test.yaml")
    assert found.files == {"model.py": (2, 4)}
    assert len(found.commit) == 10


def test_files_are_named_from_the_root_of_the_tests(checkout: Path) -> None:
    (checkout / "below").mkdir()
    (checkout / "below" / "part.py").write_text("one\n")
    (checkout / "below" / "test.yaml").write_text("version: 1\n")
    commit(checkout)
    (checkout / "below" / "part.py").write_text("two\n")
    (checkout / "model.py").write_text("two\n")
    found = changed_since(checkout / "below", checkout / "below" / "test.yaml")
    assert found.files == {"part.py": (1,)}


def test_edited_lines_have_the_function_of_before_and_of_now(checkout: Path) -> None:
    (checkout / "net.py").write_text("def f(x):\n    y = x\n    return -y\n")
    commit(checkout)
    (checkout / "test.yaml").write_text("version: 1\ntests:\n")
    commit(checkout)
    (checkout / "net.py").write_text("import os\n\ndef g(x):\n    return -y\n\n--x")
    (checkout / "model.py").unlink()
    found = edited_since(checkout, checkout / "test.yaml")
    lines = [(one.is_new, one.function, one.where.line, one.where.code) for one in found]
    assert lines == [
        (False, "model.py::<module>", 1, "one"),
        (False, "model.py::<module>", 2, "two"),
        (False, "model.py::<module>", 3, "three"),
        (False, "net.py::f", 1, "def f(x):"),
        (False, "net.py::f", 2, "y = x"),
        (True, "net.py::<module>", 1, "import os"),
        (True, "net.py::<module>", 2, ""),
        (True, "net.py::g", 3, "def g(x):"),
        (True, "net.py::<module>", 5, ""),
        (True, "net.py::<module>", 6, "--x"),
    ]


@pytest.mark.parametrize("edited", ["test.yaml", "new.yaml"])
def test_a_baseline_that_is_not_committed_as_it_is_says_nothing(
    checkout: Path, edited: str
) -> None:
    (checkout / edited).write_text("version: 1\ntests:\n")
    (checkout / "model.py").write_text("two\n")
    assert changed_since(checkout, checkout / edited) == ChangedLines()


def test_without_a_repository_nothing_is_known(tmp_path: Path) -> None:
    changed_since.cache_clear()
    assert changed_since(tmp_path, tmp_path / "test.yaml") == ChangedLines()
