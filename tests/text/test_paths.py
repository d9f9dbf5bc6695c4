"""Paths as a reader would type them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_graphbreak.text.files import display_path

pytestmark = pytest.mark.pure


def test_a_path_is_named_from_where_the_reader_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert display_path(Path("/x/a.yaml")) == "x/a.yaml"
    assert display_path(Path("/x/a.yaml"), Path("/x")) == "a.yaml"
    assert display_path(Path("/x/a.yaml"), Path("/y")) == "/x/a.yaml"
    assert display_path(Path("b/a.yaml"), Path("/y")) == "b/a.yaml"
