"""Versions of compilers and of packages, as they are compared: by major and minor."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

Versions = Mapping[str, str]
"""The versions of compilers by name, ``{"torch": "2.9"}``; one that is not known is left out."""

UNKNOWN: Final[Versions] = MappingProxyType({})


def minor(version: str | None) -> str | None:
    """``2.9`` of ``2.9.1+cpu``; None of None."""
    return ".".join(version.split("+")[0].split(".")[:2]) if version else None


def same_minor(one: str | None, other: str | None) -> bool:
    """Whether two versions share major and minor; unknown is never the same."""
    return bool(one and other) and minor(one) == minor(other)
