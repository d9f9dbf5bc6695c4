"""What is asked of torch_xla by names that it does not promise, where it is not there in full."""

from __future__ import annotations

import importlib.metadata
import sys
import types
from types import SimpleNamespace
from unittest import mock

import pytest

from pytest_graphbreak.layers.xla import fx, private


def test_the_version_of_what_is_installed_and_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch_xla", raising=False)
    monkeypatch.setattr(importlib.metadata, "version", lambda name: f"2.9.0 of {name}")
    assert private.version() == "2.9.0 of torch_xla"

    def gone(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", gone)
    assert private.version() is None


def test_torch_xla_is_there_with_its_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    """What somebody puts into ``sys.modules`` has none, and neither has one that imports torch."""
    monkeypatch.setitem(sys.modules, "torch_xla", mock.Mock())
    for extension in (mock.Mock(), types.ModuleType("_XLAC")):
        monkeypatch.setitem(sys.modules, "_XLAC", extension)
        assert not private.is_loaded()
        with pytest.raises(private.MissingName, match="_XLAC is not loaded"):
            private.binding()


def test_tensors_are_found_in_what_is_handed_over() -> None:
    one, two, three = (SimpleNamespace(device="xla", dtype=n) for n in range(3))
    given = [one, (two, None, 3), {"a": {"b": three}}, "text"]
    assert list(fx.tensors(given)) == [one, two, three]
