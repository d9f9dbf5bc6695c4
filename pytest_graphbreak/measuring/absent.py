"""Which compilers are not installed here, and so what cannot be counted or judged.

A gate that cannot see must not pass.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pytest_graphbreak.layers.imports import is_installed
from pytest_graphbreak.model.budget import Cap
from pytest_graphbreak.model.layers import DESCRIPTIONS
from pytest_graphbreak.model.versions import compilers
from pytest_graphbreak.text.numbers import noun


def baseline_impossible(graphs: Mapping[str, int], observed: Collection[str]) -> str:
    """Return why the graphs that a baseline has cannot be made here; empty if they can.

    A layer that lowers another's (``xla``) is reported as unseen where its library is not
    installed: the layer above it still counts. Without the compiler itself nothing does.
    """
    for layer, count in graphs.items():
        compiler = DESCRIPTIONS[layer].compiler
        if count and layer not in observed and not is_installed(compiler):
            return (
                f"the baseline has {count} {layer} {noun(count, 'graph')}, and {compiler} is not "
                "installed in this Python"
            )
    return ""


def cap_impossible(cap: Cap, observed: Collection[str]) -> str:
    """Return why none of the layers that a cap names can be observed; empty if one can."""
    needed = compilers(cap.layers)
    is_for_any_layer = cap.every is not None or not needed
    if is_for_any_layer or any(layer in observed for layer in cap.layers):
        return ""
    if any(map(is_installed, needed)):  # it is there, and nothing was compiled
        return ""
    names = ", ".join(f"{layer}={count}" for layer, count in cap.layers.items())
    are = f"{' and '.join(needed)} {'is' if len(needed) == 1 else 'are'}"
    return f"the {cap.by} names {names}, and {are} not installed in this Python"


def why_nothing_is_observed() -> str:
    """Return why no layer can be observed; empty if one can."""
    if any(all(map(is_installed, layer.needs)) for layer in DESCRIPTIONS.values()):
        return ""
    names = dict.fromkeys(layer.compiler for layer in DESCRIPTIONS.values())
    if len(names) == 1:
        return f"{next(iter(names))} is not installed in this Python"
    return f"none of {', '.join(names)} is installed in this Python"
