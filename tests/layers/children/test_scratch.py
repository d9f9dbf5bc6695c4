"""Directories and copies of commands that were killed go with the next command."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pytest_graphbreak.layers.children.runner import scratch

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
