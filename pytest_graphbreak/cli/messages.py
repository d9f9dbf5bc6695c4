"""Output of commands: lines that are harmless for terminals and CI logs, and progress bars."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TextIO

from pytest_graphbreak.model import json
from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.text import files, terminal
from pytest_graphbreak.text.errors import UserError, reason
from pytest_graphbreak.text.numbers import size
from pytest_graphbreak.text.output import TextLine, list_lines, text_lines
from pytest_graphbreak.text.safe import console

UNUSABLE: Final = 2
"""The exit code if the request cannot be carried out."""
MOST: Final = 200
"""The number of lines of one kind; the rest are counted."""


def say(text: str | TextLine = "", to: TextIO | None = None) -> None:
    """Print a line, or the lines of a text, made harmless; wrapped and coloured on a terminal."""
    out = to or sys.stdout
    encoding = out.encoding or "utf-8"
    for line in text_lines(text) if isinstance(text, str) else (text,):
        for part in terminal.rows_of(line, out):
            print(part.encode(encoding, "backslashreplace").decode(encoding), file=out)


def say_all(lines: Iterable[TextLine], to: TextIO | None = None) -> None:
    """Print lines."""
    for line in lines:
        say(line, to)


def complain(text: str | TextLine) -> None:
    """Print an error on standard error."""
    sys.stdout.flush()
    say(text, sys.stderr)


def note(text: str) -> None:
    """Print a note on standard error."""
    complain(f"graphbreak: note: {text}")


def say_list(word: str, items: Iterable[str], most: int = MOST) -> None:
    """Print a line for each item after a label; items beyond ``most`` are counted."""
    say_all(list_lines(word, items, most))


def add_output(
    parser: argparse.ArgumentParser, option: str, mark: re.Pattern[bytes], words: str
) -> None:
    """Add an option that names a file to write; one that is not ours is a usage error."""

    def path(text: str) -> str:
        try:
            files.refuse_foreign(Path(text), mark)
        except UserError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        return text

    parser.add_argument(option, metavar="F", type=path, help=words)


def write(path: str, text: str, to: TextIO | None = None) -> bool:
    """Write a file, with its directories, and say so; complain and return False if that fails."""

    def put() -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text, encoding="utf-8")

    return _write(path, files.PAGE, put, to)


def write_report(path: str, document: Plain, to: TextIO | None = None) -> bool:
    """Write a JSON report, like ``write``."""
    return _write(path, files.REPORT, lambda: json.write(Path(path), document), to)


def _write(
    path: str, mark: re.Pattern[bytes], put: Callable[[], object], to: TextIO | None
) -> bool:
    try:
        files.refuse_foreign(Path(path), mark)  # it may be there since the command began
        put()
    except (OSError, ValueError) as error:
        complain(f"graphbreak: {path}: cannot be written: {reason(error)}")
        return False
    if Path(path).is_file() and not path.startswith("/dev/"):
        say(f"Wrote {path}.", to)
    return True


# Progress: one line on a terminal, which is redrawn and then erased. tqdm is not used, since it
# does not print a line for each step without a terminal, and does not make foreign text
# printable.

EVERY: Final = 0.1
"""The seconds between two redraws: faster is not visible, and slow terminals would take time."""

_WIDTH: Final = 20
_TICK: Final = 0.25
"""The seconds between updates of the clock, so that a run of a minute is seen to be alive."""
_ERASE: Final = "\r\x1b[K"


class _Line:
    """The line. ``shown`` is true if standard error is a terminal that can erase it."""

    def __init__(self, to: TextIO | None) -> None:
        self._out = to or sys.stderr
        terminal = self._out is not None and self._out.isatty()
        self.shown = terminal and os.environ.get("TERM") != "dumb"

    def draw(self, text: str = "") -> None:
        """Replace the line, or erase it if there is no text."""
        encoding = self._out.encoding or "utf-8"
        self._out.write(f"{_ERASE}{text}".encode(encoding, "backslashreplace").decode(encoding))
        self._out.flush()

    def say(self, text: str) -> None:
        """Print a line that stays."""
        print(text, file=self._out, flush=True)


def _bar(share: float) -> str:
    filled = round(_WIDTH * share)
    return f"[{'#' * filled}{'.' * (_WIDTH - filled)}]"


class Bar:
    """Shows how much of something was read. Prints nothing if there is no terminal."""

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

    def move(self, done: int, total: int | None) -> None:
        """Note that ``done`` bytes of ``total`` were read; ``total`` is None if it is unknown."""
        now = time.monotonic()
        if not self._line.shown or now - self._drawn < EVERY:
            return
        self._drawn = now
        if not total:
            self._draw(f"{size(done)} read")
            return
        part = min(done / total, 1.0)
        self._draw(f"{_bar(part)} {part:>4.0%} of {size(total)}")

    def _draw(self, words: str) -> None:
        """Draw the bar. The end of a long name is shown, since it distinguishes logs."""
        room = max(0, shutil.get_terminal_size().columns - len(words) - 3)
        name = self._name if len(self._name) <= room else self._name[len(self._name) - room :]
        self._line.draw(f"{words}  {name}")


class Progress:
    """A line that is redrawn for each step; in a CI log, a line for each step.

    As a context manager it erases the line at the end of the block.
    """

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

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        self.clear()

    def step(
        self, done: float, most: float, words: str, detail: Callable[[], str] | None = None
    ) -> None:
        """Begin a step, with ``done`` of ``most`` parts of the work finished.

        ``detail`` is called for the progress of the step itself, each time the bar is drawn.
        """
        words = console(words)
        self._steps += 1
        if not self._line.shown:
            self._line.say(f"[{self._steps}] {words}")
            return
        with self._lock:
            # The total may grow during the work; the bar does not go back for that.
            self._share = max(self._share, min(1.0, done / most if most else 0.0))
            self._words, self._began = words, time.monotonic()
            self._detail = detail
            self._drawn = True
            self._draw()
        if self._ticker is None:
            self._ticker = threading.Thread(target=self._tick, daemon=True)
            self._ticker.start()

    def clear(self) -> None:
        """Erase the bar, so that other lines can be printed; the next step draws it again."""
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
