"""The observers of this process, one for each layer."""

from __future__ import annotations

from functools import cache

from pytest_graphbreak.layers.base import Observer
from pytest_graphbreak.model.layer import load
from pytest_graphbreak.model.layers import DESCRIPTIONS


def observers() -> tuple[Observer, ...]:
    """No compiler is imported by this."""
    return _loaded()[0]


def unloaded() -> tuple[str, ...]:
    """Why others cannot be loaded: what is not watched is no layer of zero."""
    return _loaded()[1]


@cache
def _loaded() -> tuple[tuple[Observer, ...], tuple[str, ...]]:
    found: list[Observer] = []
    faults = []
    for layer in DESCRIPTIONS.values():
        try:
            found.append(load(layer.observer)())
        except Exception as fault:
            words = f"{type(fault).__name__}: {fault}"
            faults.append(
                f"the {layer.name} layer cannot be loaded ({words}): install pytest-graphbreak anew"
            )
    return tuple(found), tuple(faults)
