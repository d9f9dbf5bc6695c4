"""Versions of compilers and packages: compared by major and minor version.

Reasons and operations may be others with another minor version, and are the same within one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

Versions = Mapping[str, str]
"""Versions of compilers by name, such as ``{"torch": "2.9"}``; unknown ones are left out."""

UNKNOWN_VERSIONS: Final[Versions] = MappingProxyType({})
"""No version is known: reasons and operations are compared with nothing."""


def minor(version: str | None) -> str | None:
    """Return major and minor of a version (``2.9`` for ``2.9.1+cpu``), or None for None."""
    return ".".join(version.split("+")[0].split(".")[:2]) if version else None


def minors(versions: Mapping[str, str | None], names: Iterable[str]) -> dict[str, str]:
    """Return the minor versions of ``names``, without those whose version is unknown."""
    return {name: short for name in names if (short := minor(versions.get(name)))}


def same_minor(version: str | None, another: str | None) -> bool:
    """Return whether two versions share major and minor; an unknown version equals no other."""
    return bool(version and another) and minor(version) == minor(another)
