"""A checkout with reports in it, and the command typed there."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.commands import Commands
from tests.reports import Data, write


@pytest.fixture(autouse=True)
def _environment_is_active(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scripts of this Python come first on PATH, so that commands are printed by their name."""
    path = os.pathsep.join((os.path.dirname(sys.executable), os.environ.get("PATH", "")))
    monkeypatch.setenv("PATH", path)


class Workspace(Commands):
    """A directory of a checkout. ``run`` types a command in it."""

    def __init__(self, path: Path, capture: pytest.CaptureFixture[str]) -> None:
        super().__init__(path, capture)
        (path / "pytest.ini").write_text("[pytest]\n")
        for name in ("tests/test_a.py", "tests/test_b.py"):
            (path / name).parent.mkdir(exist_ok=True)
            (path / name).write_text("")

    def report(self, name: str, report: Data) -> str:
        write(self.path / name, report)
        return name

    def baseline(self, name: str = "tests/test_a.yaml") -> str:
        return (self.path / "baselines" / name).read_text()

    def files(self) -> dict[str, bytes]:
        """Every file below, by name: to see that nothing was written."""
        return {
            str(path.relative_to(self.path)): path.read_bytes()
            for path in self.path.rglob("*")
            if path.is_file()
        }


@pytest.fixture
def workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Workspace:
    path = tmp_path / "checkout"
    path.mkdir()
    monkeypatch.chdir(path)
    return Workspace(path, capsys)
