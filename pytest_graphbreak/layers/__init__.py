"""The layers, a folder or a module each, and the observers of this process, one for each layer.

``model.layers.DESCRIPTIONS`` names the class of each observer (``package.module:Name``), which is
imported only here, once in a process.
"""

from __future__ import annotations

from functools import cache, partial
from importlib import import_module
from typing import Any

from pytest_graphbreak.layers.faults import guard
from pytest_graphbreak.layers.protocol import Observer
from pytest_graphbreak.model.layers import DESCRIPTIONS


def observers() -> tuple[Observer, ...]:
    """Return the observers of this process, one for each layer. No compiler is imported."""
    return _load()[0]


def load_errors() -> tuple[str, ...]:
    """Return why layers cannot be loaded: one that is not watched has no count of zero."""
    return _load()[1]


def load(path: str) -> Any:
    """Return the object that ``package.module:Name`` names: an observer or a probe of a layer.

    Raises ``ImportError`` and ``AttributeError``.
    """
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


@cache
def _load() -> tuple[tuple[Observer, ...], tuple[str, ...]]:
    loaded: list[Observer] = []
    faults: list[str] = []
    for layer in DESCRIPTIONS.values():
        with guard(partial(_note_load_error, faults, layer.name)):
            loaded.append(load(layer.observer)())
    return tuple(loaded), tuple(faults)


def _note_load_error(errors: list[str], layer: str, fault: Exception) -> None:
    words = f"{type(fault).__name__}: {fault}"
    errors.append(f"the {layer} layer cannot be loaded ({words}): reinstall pytest-graphbreak")
