"""How the commands over reports talk: lines that no terminal and no CI log obeys."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TextIO

from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.report import json
from pytest_graphbreak.text import terminal
from pytest_graphbreak.text.safe import console

MOST: Final = 200
"""Lines of one kind; the rest are counted."""


def say(text: str = "", to: TextIO | None = None, *, whole: bool = False) -> None:
    """Print text, line by line, each made harmless; broken and coloured on a terminal.

    Lines that are ``whole`` are not broken: source code, and what is laid out already.
    """
    out = to or sys.stdout
    encoding = out.encoding or "utf-8"
    for line in text.split("\n"):
        for part in terminal.shown(console(line), out, whole=whole):
            print(part.encode(encoding, "backslashreplace").decode(encoding), file=out)


def complain(text: str) -> None:
    """Say what is wrong, on standard error."""
    sys.stdout.flush()
    say(text, sys.stderr)


def listing(word: str, items: Iterable[str], most: int = MOST) -> None:
    """One line for each item behind a word; what is over ``most`` is counted."""
    found = list(items)
    for item in found[:most]:
        say(f"{word:<10} {item}")
    if len(found) > most:
        say(f"{word:<10} ... and {len(found) - most:,} more")


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
