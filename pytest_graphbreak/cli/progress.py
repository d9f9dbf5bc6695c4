"""Shows how far long work is: one line on a terminal, drawn again and again, then erased.

Not by tqdm, which prints no line for each step where there is no terminal and makes no text from
outside printable.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from typing import Final, TextIO

from pytest_graphbreak.report.log.words import size
from pytest_graphbreak.text.safe import console

EVERY: Final = 0.1
"""Seconds between two drawings: more often nobody sees, and a slow terminal would cost time."""

_WIDTH: Final = 20
_TICK: Final = 0.25
"""Seconds between two looks at the clock: a run that takes a minute is seen to be alive."""
_ERASE: Final = "\r\x1b[K"


class _Line:
    """The line. ``shown`` where standard error is a terminal that can erase one."""

    def __init__(self, to: TextIO | None) -> None:
        self._out = to or sys.stderr
        terminal = self._out is not None and self._out.isatty()
        self.shown = terminal and os.environ.get("TERM") != "dumb"

    def draw(self, text: str = "") -> None:
        """Replace it; without a text it is erased."""
        encoding = self._out.encoding or "utf-8"
        self._out.write(f"{_ERASE}{text}".encode(encoding, "backslashreplace").decode(encoding))
        self._out.flush()

    def say(self, text: str) -> None:
        """A line that stays."""
        print(text, file=self._out, flush=True)


def _bar(share: float) -> str:
    filled = round(_WIDTH * share)
    return f"[{'#' * filled}{'.' * (_WIDTH - filled)}]"


class Bar:
    """How much of something was read. Says nothing where there is no line to draw."""

    def __init__(self, name: str, to: TextIO | None = None) -> None:
        self._line = _Line(to)
        self._name = console(name)
        self._drawn = 0.0

    def __enter__(self) -> Bar:
        if self._line.shown:
            self._draw("waiting for its first bytes")
        return self

    def __exit__(self, *error: object) -> None:
        if self._line.shown:
            self._line.draw()

    def move(self, done: int, whole: int | None) -> None:
        """``done`` bytes of ``whole`` were read; None where nobody knows how many there are."""
        now = time.monotonic()
        if not self._line.shown or now - self._drawn < EVERY:
            return
        self._drawn = now
        if not whole:
            self._draw(f"{size(done)} read")
            return
        part = min(done / whole, 1.0)
        self._draw(f"{_bar(part)} {part:>4.0%} of {size(whole)}")

    def _draw(self, words: str) -> None:
        """The end of the name is what tells logs apart where the line is too short for both."""
        room = max(0, shutil.get_terminal_size().columns - len(words) - 3)
        name = self._name if len(self._name) <= room else self._name[len(self._name) - room :]
        self._line.draw(f"{words}  {name}")


class Progress:
    """One line that is drawn again and again; in a CI log, a line for each step."""

    def __init__(self, to: TextIO | None = None) -> None:
        self._line = _Line(to)
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
        if not self._line.shown:
            self._line.say(f"[{self._steps}] {words}")
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
                self._line.draw()
                self._drawn = False

    def _draw(self) -> None:
        took = time.monotonic() - self._began
        line = f"{_bar(self._share)} run {self._steps}, {took:.0f} s: {self._words}"
        if self._detail is not None and (detail := self._detail()):
            line += f"  {console(detail)}"
        self._line.draw(line[: shutil.get_terminal_size().columns - 1])

    def _tick(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # the terminal may go before the command
            while True:
                time.sleep(_TICK)
                with self._lock:
                    if self._drawn:
                        self._draw()
