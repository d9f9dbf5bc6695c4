"""Which layers there are, from the user's code down to the device.

This is the list: a layer is a folder of ``layers`` and a line here. It is short by intent and
takes no entries from other packages: layers are in the baseline files and in the schema of
the JSON report, which are read where nothing is installed but this package.

A description is found by its name and not imported above: ``layers`` imports this room.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from pytest_graphbreak.model.layer import Layer, Versions, load

LAYERS: Final = (
    "dynamo",
    "xla",
    "tt",
    "jax",
    "jax_host",
)
"""Where graphs are counted, from the user's code down to the device."""

DESCRIPTIONS: Final[Mapping[str, Layer]] = MappingProxyType(
    {name: load(f"pytest_graphbreak.layers.{name}:LAYER") for name in LAYERS}
)
"""What each layer says of itself."""

CAUSES: Final = {name: tuple(cause.name for cause in DESCRIPTIONS[name].causes) for name in LAYERS}
"""Why a graph can exist, by layer. Every graph has exactly one cause."""

BY_NAME: Final = {cause.name: cause for layer in DESCRIPTIONS.values() for cause in layer.causes}
"""The causes of all layers; of one name on two layers they mean the same."""

EXPECTED: Final = tuple(cause.name for cause in BY_NAME.values() if cause.is_expected)
"""The causes of graphs that a model has which compiles well."""

JUDGED: Final = frozenset(name for name in LAYERS if DESCRIPTIONS[name].judged)
"""The layers that a budget holds for which does not name them."""

BREAKING: Final = tuple(name for name in LAYERS if DESCRIPTIONS[name].breaks)
"""The layers that code can leave: graph breaks, and functions that run eagerly."""

BACKENDS: Final = {name: layer.backend for name, layer in DESCRIPTIONS.items() if layer.backend}
"""The layers that are a device's, with the backend of ``torch.compile`` that reaches it."""

VERSIONS: Final = tuple(
    dict.fromkeys(name for layer in DESCRIPTIONS.values() for name in layer.versions)
)
"""The packages whose versions every report states."""


def compilers(layers: Iterable[str]) -> tuple[str, ...]:
    """The packages that make the graphs of these layers, each once."""
    return tuple(dict.fromkeys(DESCRIPTIONS[layer].compiler for layer in layers))


COMPILERS: Final = compilers(LAYERS)
"""The packages that make graphs: a baseline states with which version of each it was measured."""

WAITED: Final = tuple(
    dict.fromkeys(layer.needs[0] for layer in DESCRIPTIONS.values() if layer.needs)
)
"""The modules of which a process imports one before it can compile anything."""


def made_by(layer: str, versions: Versions) -> str | None:
    """The version of the compiler that makes the graphs of a layer; None where it is not known."""
    return versions.get(DESCRIPTIONS[layer].compiler)
