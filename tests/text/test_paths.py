"""Paths as a reader would type them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_graphbreak.text.files import shown

pytestmark = pytest.mark.pure


def test_a_path_is_named_from_where_the_reader_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    assert shown(Path("/x/a.yaml")) == "x/a.yaml"
    assert shown(Path("/x/a.yaml"), Path("/x")) == "a.yaml"
    assert shown(Path("/x/a.yaml"), Path("/y")) == "/x/a.yaml"
    assert shown(Path("b/a.yaml"), Path("/y")) == "b/a.yaml"
