"""Shows how far long work is: a bar on a terminal, a line for each step elsewhere."""

from __future__ import annotations

import shutil
import sys
from typing import TextIO

from pytest_graphbreak.report.safe import console


class Progress:
    """One line that is drawn again and again; in a CI log, a line for each step."""

    def __init__(self, to: TextIO | None = None) -> None:
        self._out = to or sys.stderr
        self._bar = self._out.isatty()
        self._drawn = False

    def step(self, done: int, most: int, words: str) -> None:
        """Say that step ``done`` of at most ``most`` begins."""
        words = console(words)
        if not self._bar:
            print(f"[{done + 1}] {words}", file=self._out, flush=True)
            return
        width = shutil.get_terminal_size().columns
        filled = min(20, 20 * done // max(most, 1))
        line = f"[{'#' * filled}{'.' * (20 - filled)}] run {done + 1}: {words}"
        self._out.write(f"\r\x1b[K{line[: width - 1]}")
        self._out.flush()
        self._drawn = True

    def clear(self) -> None:
        """Take the bar away, so that other lines can be written."""
        if self._drawn:
            self._out.write("\r\x1b[K")
            self._out.flush()
            self._drawn = False
