"""Directories and copies of commands that were killed go with the next command."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from pytest_graphbreak.layers.children.runner import PREFIX, Runner, scratch
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench

pytestmark = pytest.mark.once


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def left(folder: Path, name: str) -> Path:
    """As a command leaves it that is killed."""
    path = folder / f"{PREFIX}{name}"
    path.mkdir()
    (path / "owner").touch()
    return path


def test_what_nobody_owns_is_removed_and_what_lives_stays(folder: Path) -> None:
    old = left(folder, "old")
    newborn = folder / f"{PREFIX}newborn"
    newborn.mkdir()
    (folder / "mine").mkdir()
    (folder / f"{PREFIX}link").symlink_to(folder / "mine")
    with scratch() as first:
        (first / "answer.json").touch()
        with scratch() as second:
            assert first.exists()
            assert second != first
        assert first.exists()
    assert not old.exists()
    assert {path.name for path in folder.iterdir()} == {
        newborn.name, "mine", f"{PREFIX}link"
    }  # fmt: skip


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
