"""What is asked of torch_xla by names that it does not promise, where it is not there in full."""

from __future__ import annotations

import importlib.machinery
import importlib.metadata
import sys
import types
from types import SimpleNamespace

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


def test_a_torch_xla_without_its_extension_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_xla", types.ModuleType("torch_xla"))
    with pytest.raises(private.MissingName, match="without its extension module _XLAC"):
        private.binding()


def test_torch_xla_is_not_there_while_it_imports_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its extension comes after torch, and torch is what a process is watched from."""
    module = types.ModuleType("torch_xla")
    module.__spec__ = importlib.machinery.ModuleSpec("torch_xla", None)
    monkeypatch.setitem(sys.modules, "torch_xla", module)
    monkeypatch.setattr(module.__spec__, "_initializing", True, raising=False)
    assert not private.is_loaded()
    module._XLAC = None  # type: ignore[attr-defined]
    assert private.is_loaded()


def test_tensors_are_found_in_what_is_handed_over() -> None:
    one, two, three = (SimpleNamespace(device="xla", dtype=n) for n in range(3))
    given = [one, (two, None, 3), {"a": {"b": three}}, "text"]
    assert list(fx.tensors(given)) == [one, two, three]
