"""Lines of source around a place, read from the checkout that a report is rendered in.

A report is not trusted: it could name any file of this machine and have it
shown. So only Python files below the root are read, and only where the line
that the report quotes is really there.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Final

from pytest_graphbreak.model.record import Frame

AROUND: Final = 3
"""Lines shown before and after the place."""
_MOST_BYTES: Final = 2 * 2**20
_LONGEST_LINE: Final = 200

Excerpt = tuple[int, list[str]]
"""The number of the first line, and the lines."""


class CheckoutSources:
    """The files of one checkout; each is read once."""

    def __init__(self, root: Path | None) -> None:
        self._given = root
        self._files: dict[str, list[str]] = {}

    @cached_property
    def _root(self) -> Path | None:
        return None if self._given is None else self._given.resolve()

    def excerpt(self, where: Frame) -> Excerpt | None:
        """The lines around a place of a report; None where they cannot be shown."""
        file, number, code = where.file, where.line, where.code
        if not file or not number or not code:
            return None
        if file not in self._files:
            self._files[file] = self._read(file)
        lines = self._files[file]
        if number > len(lines) or lines[number - 1].strip() != code.strip():
            return None  # another version of the file was measured
        first = max(1, number - AROUND)
        return first, [line[:_LONGEST_LINE] for line in lines[first - 1 : number + AROUND]]

    def _read(self, file: str) -> list[str]:
        if self._root is None or PurePosixPath(file).suffix != ".py" or "\0" in file:
            return []
        try:
            path = (self._root / file).resolve()
            if not path.is_relative_to(self._root) or not path.is_file():
                return []
            if path.stat().st_size > _MOST_BYTES:
                return []
            return path.read_text(encoding="utf-8").split("\n")
        except (OSError, ValueError):
            return []
