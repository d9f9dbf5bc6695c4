"""Versions of torch and of packages, as they are compared: by major and minor."""

from __future__ import annotations


def minor(version: str | None) -> str | None:
    """``2.9`` of ``2.9.1+cpu``; None of None."""
    return ".".join(version.split("+")[0].split(".")[:2]) if version else None


def same_minor(one: str | None, other: str | None) -> bool:
    """Whether two versions share major and minor; unknown is never the same."""
    return bool(one and other) and minor(one) == minor(other)
