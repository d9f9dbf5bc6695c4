"""Paths of this machine as a reader would type them."""

from __future__ import annotations

from pathlib import Path


def shown(path: Path, root: Path | None = None) -> str:
    """Relative to ``root``, or to the current directory, where it is below it."""
    try:
        return str(path.relative_to(Path.cwd() if root is None else root))
    except (ValueError, OSError):
        return str(path)
