"""What a program shares with others: the files that it opens for writing."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_graphbreak.repair.surroundings import WrittenFiles

pytestmark = pytest.mark.once


@pytest.mark.parametrize("name", ["out.txt", b"out.txt", Path("out.txt")])
def test_a_file_is_put_back_however_it_is_named(
    name: str | bytes | os.PathLike[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("out.txt").write_text("before")
    hooks: list[Callable[[str, tuple[Any, ...]], None]] = []
    monkeypatch.setattr(sys, "addaudithook", hooks.append)
    files = WrittenFiles()
    files.start()
    hooks[0]("open", (name, "w", 0))
    Path("out.txt").write_text("after")
    assert files.end() == {"the file out.txt": [("", ("after",))]}
    assert Path("out.txt").read_text() == "before"
