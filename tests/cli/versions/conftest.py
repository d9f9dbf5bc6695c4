"""An index of wheels of our own, and a runner."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_graphbreak.layers.children.runner import Runner, runner


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of wheels, which pip and uv take for all that there is."""
    path = tmp_path / "wheels"
    path.mkdir()
    for tool in ("PIP", "UV"):
        monkeypatch.setenv(f"{tool}_NO_INDEX", "1")
        monkeypatch.setenv(f"{tool}_FIND_LINKS", str(path))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    return path


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runner]:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with runner(120) as found:
        yield found
    assert not list(temporary.iterdir())
