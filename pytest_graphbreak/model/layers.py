"""The list of layers, from the user's code down to the device.

A layer is a folder of ``layers`` and a line here. The list is short by intent and does not accept
entries from other packages: layers are part of the baseline files and of the schema of the JSON
report, which are read where nothing but this package is installed.

Descriptions are loaded by name and not imported at the top, since ``layers`` imports this package.
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
    "inductor",
    "cudagraph",
    "triton",
)
"""The layers at which graphs are counted, from the user's code down to the device."""

DESCRIPTIONS: Final[Mapping[str, Layer]] = MappingProxyType(
    {name: load(f"pytest_graphbreak.layers.{name}:LAYER") for name in LAYERS}
)
"""The description of each layer."""

CAUSES: Final = {name: tuple(cause.name for cause in DESCRIPTIONS[name].causes) for name in LAYERS}
"""The causes of graphs by layer. Every graph has exactly one cause."""

BY_NAME: Final = {cause.name: cause for layer in DESCRIPTIONS.values() for cause in layer.causes}
"""The causes of all layers by name; a name has the same meaning on all layers."""

EXPECTED: Final = tuple(cause.name for cause in BY_NAME.values() if cause.is_expected)
"""The causes of graphs that also exist in a model that compiles well."""

JUDGED: Final = frozenset(name for name in LAYERS if DESCRIPTIONS[name].judged)
"""The layers to which a budget applies without naming them."""

BREAKING: Final = tuple(name for name in LAYERS if DESCRIPTIONS[name].breaks)
"""The layers that code can leave, by graph breaks or by functions that run eagerly."""

_REASONED: Final = frozenset(BREAKING) - JUDGED
"""The layers that a line can leave for several reasons, each of which is a place of its own."""


def reason_key(layer: str | None, reason: str) -> tuple[str, ...]:
    """Return what the reason adds to the identity of a place where code left a layer."""
    return (reason,) if layer in _REASONED else ()


BACKENDS: Final = {name: layer.backend for name, layer in DESCRIPTIONS.items() if layer.backend}
"""The layers of devices, with the backend of ``torch.compile`` that uses each."""

VERSIONS: Final = tuple(
    dict.fromkeys(name for layer in DESCRIPTIONS.values() for name in layer.versions)
)
"""The packages whose versions every report states."""


def compilers(layers: Iterable[str]) -> tuple[str, ...]:
    """Return the packages that make the graphs of these layers, each once."""
    return tuple(dict.fromkeys(DESCRIPTIONS[layer].compiler for layer in layers))


COMPILERS: Final = compilers(LAYERS)
"""The packages that make graphs; a baseline states the version of each that was used."""

WAITED: Final = tuple(
    dict.fromkeys(layer.needs[0] for layer in DESCRIPTIONS.values() if layer.needs)
)
"""The modules of which a process must import at least one before it can compile anything."""


def made_by(layer: str, versions: Versions) -> str | None:
    """Return the version of the compiler that makes the graphs of a layer, or None if unknown."""
    return versions.get(DESCRIPTIONS[layer].compiler)
