"""Layers over the environment that runs the tests: they have what differs, it stays as it is."""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
from pathlib import Path

import pytest

from pytest_graphbreak.cli.elsewhere import ElsewhereError
from pytest_graphbreak.cli.versions import environment
from pytest_graphbreak.cli.versions.environment import Environment, make, remove
from pytest_graphbreak.layers.children.runner import Runner
from tests.cli.versions.wheels import wheel

THERE = "sortedcontainers"
"""A package that this environment has, of which another version is asked for."""
BOTH = f"""
import {THERE}, pytest, tiny
print({THERE}.version, tiny.version, pytest.__name__)
"""


def said(layer: Environment, code: str) -> str:
    done = subprocess.run(
        [layer.python, "-c", code], env=layer.environ(), capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def files(home: str) -> set[str]:
    return {str(path) for path in Path(home).glob("*")}


@pytest.mark.parametrize("tool", ["pip", "uv"])
def test_a_layer_has_what_differs(
    tool: str, index: Path, work: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    if tool == "uv":
        if shutil.which("uv") is None:
            pytest.skip("uv is not installed")
        monkeypatch.setattr(environment, "has_pip", lambda: False)
    wheel(index, THERE, "99")
    wheel(index, "tiny", "1.0", requires=[THERE, "pytest"])
    here = importlib.metadata.version(THERE)
    homes = {home: files(home) for home in environment._homes()}
    layer = make(work, "layer", [f"{THERE}==99", "tiny"])
    assert dict(layer.installed) == {THERE: "99", "tiny": "1.0"}
    assert said(layer, BOTH) == "99 1.0 pytest"
    assert layer.file("tiny.py") is not None
    assert layer.file("pytest/__init__.py") is not None
    assert layer.file("../../pyvenv.cfg") is layer.file("none.py") is None
    remove(layer)
    assert layer.directory is not None
    assert not layer.directory.exists()
    assert importlib.metadata.version(THERE) == here
    assert {home: files(home) for home in homes} == homes


def test_nothing_is_installed_that_is_there(index: Path, work: Runner) -> None:
    assert not make(work, "layer", ["pytest>=8"]).installed


def test_what_does_not_go_together_is_reported(index: Path, work: Runner) -> None:
    wheel(index, "tiny", "1.0", requires=["dep==1"])
    wheel(index, "dep", "1")
    wheel(index, "dep", "2")
    first = make(work, "first", ["tiny"])
    assert not first.conflicts
    # As if the first were the present one.
    with pytest.MonkeyPatch.context() as patch:
        assert first.directory is not None
        home, homes = str(environment._packages(first.directory)), environment._homes()
        patch.setattr(environment, "_homes", lambda: [home, *homes])
        second = make(work, "second", ["dep==2"])
    assert second.conflicts
    assert "tiny 1.0 requires dep==1, but you have dep 2" in second.conflicts[0]


def test_an_installer_that_fails_is_repeated(index: Path, work: Runner) -> None:
    with pytest.raises(ElsewhereError, match="tiny==9, other: pip cannot install it") as failed:
        make(work, "layer", ["tiny==9", "other"])
    assert failed.value.words[0].startswith("ERROR: Could not find a version that satisfies")
    with pytest.raises(ElsewhereError) as failed:
        make(work, "layer", ["--index-url=x"])
    assert "Invalid requirement" in " ".join(failed.value.words)


def test_without_an_installer(index: Path, work: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "has_pip", lambda: False)
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(ElsewhereError, match="has no pip, and there is no uv"):
        make(work, "layer", ["tiny"])
