"""What commands that run programs have in common: time, reports that are kept, words of others."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pytest_graphbreak.cli import ending
from pytest_graphbreak.cli.messages import complain
from pytest_graphbreak.layers.children.runner import Runner, runner
from pytest_graphbreak.text.errors import UserError

WORDS: Final = 20
"""Lines of a program that failed that are repeated."""
MOST: Final = 1e6
"""Seconds: eleven days."""


def add_timeout(parser: argparse.ArgumentParser, seconds: int, what: str) -> None:
    """The argument that bounds how long a program of the user's may take."""
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=seconds,
        metavar="S",
        help=f"seconds for {what} ({seconds})",
    )


def _seconds(text: str) -> float:
    """A time to wait. Raises ``ValueError``, which argparse tells."""
    seconds = float(text)
    if not 0 < seconds <= MOST:
        raise ValueError
    return seconds


_seconds.__name__ = "number of seconds"  # what argparse calls it


def add_reports(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--reports", metavar="DIR", help="keep the reports of both sides: before.json, after.json"
    )


def keep(directory: str | None, before: Path, after: Path) -> bool:
    """Copy both reports to a directory, where one was named; False where that fails."""
    if directory is None:
        return True
    try:
        Path(directory).mkdir(parents=True, exist_ok=True)
        for name, path in (("before.json", before), ("after.json", after)):
            shutil.copyfile(path, Path(directory) / name)
    except OSError as error:
        complain(f"graphbreak: {directory}: cannot be written: {error.strerror or error}")
        return False
    return True


class ElsewhereError(UserError):
    """What is to run elsewhere cannot. ``words`` are those of the program that failed."""


@contextmanager
def directory(timeout: float) -> Iterator[Runner]:
    """What runs programs, each for ``timeout`` seconds at most; its directory goes with it."""
    with ending.cleared_up(), runner(timeout) as one:
        yield one
