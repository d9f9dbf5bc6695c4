"""How far a long reading is: one line on a terminal, drawn again and again, then erased."""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import Final, TextIO

from pytest_graphbreak.report.log.words import size
from pytest_graphbreak.text.safe import console

EVERY: Final = 0.1
"""Seconds between two drawings: more often nobody sees, and a slow terminal would cost time."""

_WIDTH: Final = 20
_ERASE: Final = "\r\x1b[K"


class Bar:
    """A context manager. Says nothing where standard error is no terminal that can erase a line."""

    def __init__(self, name: str, to: TextIO | None = None) -> None:
        self._out = to or sys.stderr
        self._name = console(name)
        self._shown = self._out is not None and self._out.isatty() and _erases()
        self._drawn = 0.0

    def __enter__(self) -> Bar:
        if self._shown:
            self._draw("waiting for its first bytes")
        return self

    def __exit__(self, *error: object) -> None:
        if self._shown:
            self._write(_ERASE)

    def move(self, done: int, whole: int | None) -> None:
        """``done`` bytes of ``whole`` were read; None where nobody knows how many there are."""
        now = time.monotonic()
        if not self._shown or now - self._drawn < EVERY:
            return
        self._drawn = now
        if not whole:
            self._draw(f"{size(done)} read")
            return
        part = min(done / whole, 1.0)
        filled = int(_WIDTH * part)
        bar = f"[{'#' * filled}{'.' * (_WIDTH - filled)}]"
        self._draw(f"{bar} {part:>4.0%} of {size(whole)}")

    def _draw(self, words: str) -> None:
        """The end of the name is what tells logs apart where the line is too short for both."""
        room = max(0, shutil.get_terminal_size().columns - len(words) - 3)
        name = self._name if len(self._name) <= room else self._name[len(self._name) - room :]
        self._write(f"{_ERASE}{words}  {name}")

    def _write(self, text: str) -> None:
        encoding = self._out.encoding or "utf-8"
        self._out.write(text.encode(encoding, "backslashreplace").decode(encoding))
        self._out.flush()


def _erases() -> bool:
    return os.environ.get("TERM") != "dumb"
