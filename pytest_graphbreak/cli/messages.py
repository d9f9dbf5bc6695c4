"""What commands print and write: harmless lines, files, and a progress bar.

``say`` and the like print on standard output, ``complain`` and ``note`` on standard error.
``write`` and the like write the files that options name, which ``add_output`` adds to a parser.
``Progress`` stands here since it draws between these lines: it must be cleared before one is
printed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TextIO

from pytest_graphbreak.model import json as json_report
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
    """Print on standard error what is no error, such as a file that is skipped."""
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
    return _write(path, files.REPORT, lambda: json_report.write(Path(path), document), to)


def write_result(args: argparse.Namespace, data: Mapping[str, Any]) -> None:
    """Write the result of a command as JSON if ``--json`` names a file. Raises ``OSError``.

    It is the last step of the command, which ends with this error, where ``write`` goes on.
    """
    if args.json:
        path = Path(args.json)
        files.refuse_foreign(path, files.RESULT)
        result = {files.RESULT_KEY: f"graphbreak {args.command}", **data}
        files.put(path, f"{json.dumps(result, indent=2)}\n".encode())


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
# prints no line for each step where there is no terminal, and does not make foreign text printable.

EVERY: Final = 0.1
"""The seconds between two redraws: faster is not visible, and slow terminals would take time."""
_WIDTH: Final = 20
"""Columns of the bar."""
_ERASE: Final = "\r\x1b[K"
"""Back to the beginning of the row, and clear it."""


class Progress:
    """A line that is redrawn for each step, and erased at the end of a block.

    In a CI log it is a line for each step.
    """

    def __init__(self, to: TextIO | None = None) -> None:
        self._out = to or sys.stderr
        terminal = self._out is not None and self._out.isatty()
        self._shown = terminal and os.environ.get("TERM") != "dumb"
        self._steps = 0
        self._share = 0.0
        self._drawn = 0.0
        """When ``move`` drew last."""

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        self.clear()

    def step(self, done: float, most: float, words: str) -> None:
        """Begin a step, with ``done`` of ``most`` parts of the work finished."""
        self._steps += 1
        if self._shown:
            # The total may grow during the work; the bar does not go back for that.
            self._share = max(self._share, min(1.0, done / most if most else 0.0))
            self._draw(f"{_bar(self._share)} run {self._steps}: {console(words)}")
        else:
            print(f"[{self._steps}] {console(words)}", file=self._out, flush=True)

    def move(self, name: str, done: int, total: int | None) -> None:
        """Show that ``done`` bytes of ``total`` were read; ``total`` is None if it is unknown.

        Without a terminal nothing is shown.
        """
        if self._shown and time.monotonic() - self._drawn > EVERY:
            self._drawn = time.monotonic()
            part = min(done / total, 1.0) if total else 0.0
            words = f"{_bar(part)} {part:>4.0%} of {size(total)}" if total else f"{size(done)} read"
            self._draw(f"{words}  {console(name)}")

    def clear(self) -> None:
        """Erase the line, so that others can be printed; the next step draws it again."""
        if self._shown:
            self._draw("")

    def _draw(self, text: str) -> None:
        text = text[: shutil.get_terminal_size().columns - 1]
        encoding = self._out.encoding or "utf-8"
        self._out.write(f"{_ERASE}{text}".encode(encoding, "backslashreplace").decode(encoding))
        self._out.flush()


def _bar(share: float) -> str:
    filled = round(_WIDTH * share)
    return f"[{'#' * filled}{'.' * (_WIDTH - filled)}]"
