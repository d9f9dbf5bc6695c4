"""The reports of both sides are kept where they were asked for; where that fails it is said."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_graphbreak.cli import main, upgrade
from pytest_graphbreak.cli.elsewhere import ElsewhereError, keep
from pytest_graphbreak.cli.versions.environment import Environment
from pytest_graphbreak.layers.children.runner import Runner


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path]:
    sides = tmp_path / "one.json", tmp_path / "two.json"
    for path in sides:
        path.write_text(path.stem)
    return sides


def test_they_are_kept_where_they_were_asked_for(tmp_path: Path, sides: tuple[Path, Path]) -> None:
    assert keep(None, *sides)
    assert keep(str(tmp_path / "a" / "b"), *sides)
    kept = {path.name: path.read_text() for path in (tmp_path / "a" / "b").iterdir()}
    assert kept == {"before.json": "one", "after.json": "two"}


def test_a_directory_that_cannot_be_made_is_named(
    tmp_path: Path, sides: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    taken = str(sides[0])
    assert not keep(taken, *sides)
    assert capsys.readouterr().err == f"graphbreak: {taken}: cannot be written: File exists\n"


def test_what_a_program_said_stands_below(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(runner: Runner, name: str, requirements: Sequence[str]) -> Environment:
        raise ElsewhereError("pip cannot install it", ["ERROR: no", "such thing"])

    monkeypatch.setattr(upgrade, "make", fails)
    assert main(["upgrade", "tiny==9"]) == 2
    said = "graphbreak upgrade: pip cannot install it\n    ERROR: no\n    such thing\n"
    assert capsys.readouterr().err.endswith(said)
