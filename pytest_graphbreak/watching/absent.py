"""What a budget names and nothing here can make: a gate that cannot see must not pass."""

from __future__ import annotations

import importlib.util
from collections.abc import Collection, Iterable, Mapping
from functools import cache

from pytest_graphbreak.model.budget import Cap
from pytest_graphbreak.model.layers import DESCRIPTIONS
from pytest_graphbreak.text.numbers import noun


def of_baseline(graphs: Mapping[str, int], observed: Collection[str]) -> str:
    """Why the graphs that a baseline has cannot be there; empty where they can.

    A layer that lowers another's (``xla``) is told as unseen where its library is not there: the
    layer above it still counts. Without the compiler itself nothing does.
    """
    for layer, count in graphs.items():
        compiler = DESCRIPTIONS[layer].compiler
        if count and layer not in observed and not _installed(compiler):
            return (
                f"the baseline has {count} {layer} {noun(count, 'graph')}, and {compiler} is not "
                "installed in this Python"
            )
    return ""


def of_cap(cap: Cap, observed: Collection[str]) -> str:
    """Why none of the layers that a cap names can be there; empty where one can."""
    if cap.every is not None or not cap.layers:
        return ""
    if any(layer in observed for layer in cap.layers):
        return ""
    if any(_installed(name) for name in _compilers(cap.layers)):
        return ""
    names = ", ".join(f"{layer}={count}" for layer, count in cap.layers.items())
    missing = _compilers(cap.layers)
    are = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'}"
    return f"the {cap.by} names {names}, and {are} not installed in this Python"


def _compilers(layers: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(DESCRIPTIONS[layer].compiler for layer in layers))


@cache
def _installed(name: str) -> bool:
    """Looked for once a process: a search through ``sys.path`` at each test is felt."""
    try:
        return importlib.util.find_spec(name) is not None
    except ValueError:  # something took its place in sys.modules
        return False
