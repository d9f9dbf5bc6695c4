"""Directories and copies of commands that were killed go with the next command."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from pytest_graphbreak.layers.children.runner import Runner, scratch
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench

pytestmark = pytest.mark.once


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_what_a_killed_command_left_is_removed_and_what_lives_stays(folder: Path) -> None:
    (folder / "mine").mkdir()
    dead = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True
    )
    with scratch() as first:
        (first / "answer.json").touch()
        killed = Path(str(first).replace(f"-{os.getpid()}-", f"-{int(dead.stdout)}-"))
        shutil.copytree(first, killed)
        with scratch() as second:
            assert first.exists()
            assert second != first
        assert first.exists()
        assert not killed.exists()
    assert [path.name for path in folder.iterdir()] == ["mine"]


def test_a_copy_beside_the_program_replaces_no_file(folder: Path) -> None:
    target = Target(folder / "test_net.py", "test_a")
    with scratch() as directory:
        trials = Bench(Runner(directory, 60))
        with trials.beside(target, b"x = 1") as copy, trials.beside(target, b"") as other:
            assert copy.path.name.startswith("net_trial1_")
            assert copy.path.read_bytes() == b"x = 1"
            assert copy.path != other.path  # the same number: two commands at once
    assert not list(folder.glob("*.py"))


def test_an_interrupt_that_comes_with_the_file_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is there, and the signal is handled before the call of ``open`` has an answer."""
    target = Target(tmp_path / "a.py")
    target.path.write_text("x = 1\n")
    opened = os.open

    def interrupted(*given: Any) -> int:
        os.close(opened(*given))
        raise KeyboardInterrupt

    with scratch() as directory:
        trials = Bench(Runner(directory, 60))
        monkeypatch.setattr(os, "open", interrupted)
        with pytest.raises(KeyboardInterrupt), trials.beside(target, b"x = 2"):
            raise AssertionError("it is not reached")
        monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["a.py"]
