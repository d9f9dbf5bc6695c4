"""Which package compiles the graphs of a layer, and whether two versions of it are the same.

Reasons and operations may be others with another minor version, and are the same within one. So a
baseline states the versions that measured it, and what they measured is compared with its like.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from pytest_graphbreak.model.layers import DESCRIPTIONS, LAYERS

Versions = Mapping[str, str]
"""Versions of compilers by name, such as ``{"torch": "2.9"}``; unknown ones are left out."""

UNKNOWN_VERSIONS: Final[Versions] = MappingProxyType({})
"""No version is known: reasons and operations are compared with nothing."""


def compilers(layers: Iterable[str]) -> tuple[str, ...]:
    """Return the packages that make the graphs of these layers, each once."""
    return tuple(dict.fromkeys(DESCRIPTIONS[layer].compiler for layer in layers))


COMPILERS: Final = compilers(LAYERS)
"""The packages that make graphs; a baseline states the version of each that was used."""

STATED: Final = tuple(
    dict.fromkeys(name for layer in DESCRIPTIONS.values() for name in layer.versions)
)
"""The packages whose versions every report states."""


def made_by(layer: str, versions: Versions) -> str | None:
    """Return the version of the compiler that makes the graphs of a layer, or None if unknown."""
    return versions.get(DESCRIPTIONS[layer].compiler)


def minor(version: str | None) -> str | None:
    """Return major and minor of a version (``2.9`` for ``2.9.1+cpu``), or None for None."""
    return ".".join(version.split("+")[0].split(".")[:2]) if version else None


def minors(versions: Mapping[str, str | None], names: Iterable[str]) -> dict[str, str]:
    """Return the minor versions of ``names``, without those whose version is unknown."""
    return {name: short for name in names if (short := minor(versions.get(name)))}


def same_minor(version: str | None, another: str | None) -> bool:
    """Return whether two versions share major and minor; an unknown version equals no other."""
    return bool(version and another) and minor(version) == minor(another)
