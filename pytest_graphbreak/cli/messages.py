"""How the commands over reports talk: lines that no terminal and no CI log obeys."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TextIO

from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.report import json
from pytest_graphbreak.text import terminal
from pytest_graphbreak.text.output import TextLine, labelled, lined

UNUSABLE: Final = 2
"""The exit code where what was asked for cannot be done."""
MOST: Final = 200
"""Lines of one kind; the rest are counted."""


def say(said: str | TextLine = "", to: TextIO | None = None) -> None:
    """Print a line, or the lines of a text, made harmless; broken and coloured on a terminal."""
    out = to or sys.stdout
    encoding = out.encoding or "utf-8"
    for line in lined(said) if isinstance(said, str) else (said,):
        for part in terminal.printed(line, out):
            print(part.encode(encoding, "backslashreplace").decode(encoding), file=out)


def say_all(lines: Iterable[TextLine], to: TextIO | None = None) -> None:
    """Print lines."""
    for line in lines:
        say(line, to)


def complain(text: str | TextLine) -> None:
    """Say what is wrong, on standard error."""
    sys.stdout.flush()
    say(text, sys.stderr)


def listing(word: str, items: Iterable[str], most: int = MOST) -> None:
    """One line for each item behind a word; what is over ``most`` is counted."""
    found = list(items)
    for item in found[:most]:
        say(labelled(word, item))
    if len(found) > most:
        say(labelled(word, f"... and {len(found) - most:,} more"))


def write(path: str, text: str, to: TextIO | None = None) -> bool:
    """Write a file, with its directories, and say so; complain and return False if that fails."""

    def put() -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text, encoding="utf-8")

    return _written(path, put, to)


def write_report(path: str, document: Plain, to: TextIO | None = None) -> bool:
    """As ``write``, for a JSON report."""
    return _written(path, lambda: json.write(Path(path), document), to)


def _written(path: str, put: Callable[[], object], to: TextIO | None) -> bool:
    try:
        put()
    except (OSError, ValueError) as error:
        words = getattr(error, "strerror", None) or error
        complain(f"graphbreak: {path}: cannot be written: {words}")
        return False
    if Path(path).is_file() and not path.startswith("/dev/"):
        say(f"Wrote {path}.", to)
    return True
