"""Shows how far long work is: a bar that moves on a terminal, a line for each step elsewhere."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from typing import Final, TextIO

from pytest_graphbreak.text.safe import console

_WIDTH: Final = 20
_TICK: Final = 0.25
"""Seconds between two looks at the clock: a run that takes a minute is seen to be alive."""


class Progress:
    """One line that is drawn again and again; in a CI log, a line for each step."""

    def __init__(self, to: TextIO | None = None) -> None:
        self._out = to or sys.stderr
        self._bar = self._out.isatty() and os.environ.get("TERM") != "dumb"
        self._steps = 0
        self._share = 0.0
        self._words = ""
        self._detail: Callable[[], str] | None = None
        self._began = 0.0
        self._drawn = False
        self._lock = threading.Lock()
        self._ticker: threading.Thread | None = None

    def step(
        self, done: float, most: float, words: str, detail: Callable[[], str] | None = None
    ) -> None:
        """Say that a step begins, with ``done`` of ``most`` parts of the work behind it.

        ``detail`` is asked how far the step itself is, each time the bar is drawn.
        """
        words = console(words)
        self._steps += 1
        if not self._bar:
            print(f"[{self._steps}] {words}", file=self._out, flush=True)
            return
        with self._lock:
            # What is found on the way makes the work more; the bar does not go back for it.
            self._share = max(self._share, min(1.0, done / most if most else 0.0))
            self._words, self._began = words, time.monotonic()
            self._detail = detail
            self._drawn = True
            self._draw()
        if self._ticker is None:
            self._ticker = threading.Thread(target=self._tick, daemon=True)
            self._ticker.start()

    def clear(self) -> None:
        """Take the bar away, so that other lines can be written; the next step draws it again."""
        with self._lock:
            if self._drawn:
                self._out.write("\r\x1b[K")
                self._out.flush()
                self._drawn = False

    def _draw(self) -> None:
        filled = round(_WIDTH * self._share)
        bar = "#" * filled + "." * (_WIDTH - filled)
        took = time.monotonic() - self._began
        line = f"[{bar}] run {self._steps}, {took:.0f} s: {self._words}"
        if self._detail is not None and (detail := self._detail()):
            line += f"  {console(detail)}"
        self._out.write(f"\r\x1b[K{line[: shutil.get_terminal_size().columns - 1]}")
        self._out.flush()

    def _tick(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # the terminal may go before the command
            while True:
                time.sleep(_TICK)
                with self._lock:
                    if self._drawn:
                        self._draw()
