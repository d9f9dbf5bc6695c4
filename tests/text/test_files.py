"""Files that are written in one step."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_graphbreak.text.files import display_path, hold, in_one_step, write

pytestmark = pytest.mark.pure


def test_a_file_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")
    with in_one_step(path) as handle:
        write(handle, b"new")
        assert path.read_text() == "old"
        (hidden,) = tmp_path.glob(".graphbreak-*.tmp")
        with open(hidden, "rb") as other:
            assert not hold(other.fileno())
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["a.json"]


def interrupted(path: Path) -> None:
    with in_one_step(path) as handle:
        write(handle, b"half")
        raise KeyboardInterrupt


def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt):
        interrupted(path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.json"]
    with pytest.raises(FileNotFoundError), in_one_step(tmp_path / "no" / "a.json"):
        pass


def test_the_mode_is_that_of_any_new_file(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        with in_one_step(tmp_path / "a.json") as handle:
            write(handle, b"new")
    finally:
        os.umask(mask)
    assert (tmp_path / "a.json").stat().st_mode & 0o777 == 0o640


def test_a_path_is_named_from_where_the_reader_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert display_path(Path("/x/a.yaml")) == "x/a.yaml"
    assert display_path(Path("/x/a.yaml"), Path("/x")) == "a.yaml"
    assert display_path(Path("/x/a.yaml"), Path("/y")) == "/x/a.yaml"
    assert display_path(Path("b/a.yaml"), Path("/y")) == "b/a.yaml"
