"""Shared parts of commands that run programs: timeouts, kept reports, their error output.

A command that is asked to end clears up first: SIGTERM and SIGHUP end it as Ctrl-C does.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

from pytest_graphbreak.cli.messages import complain
from pytest_graphbreak.layers.children.runner import Runner, runner
from pytest_graphbreak.text.output import UserError, reason

WORDS: Final = 20
"""The number of lines that are repeated from a program that failed."""
MOST: Final = 1e6
"""The longest timeout in seconds, about eleven days."""


def add_timeout(parser: argparse.ArgumentParser, seconds: int, what: str) -> None:
    """Add the option that limits the time of a user's program."""
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=seconds,
        metavar="S",
        help=f"seconds for {what} ({seconds})",
    )


def _seconds(text: str) -> float:
    """Return a timeout in seconds. Raises ``ValueError``, which argparse reports."""
    seconds = float(text)
    if not 0 < seconds <= MOST:
        raise ValueError
    return seconds


_seconds.__name__ = "number of seconds"  # the name in argparse's messages


def add_reports(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--reports", metavar="DIR", help="keep the reports of both sides: before.json, after.json"
    )


def keep(directory: str | None, before: Path, after: Path) -> bool:
    """Copy both reports to a directory if one was named; return False if that fails."""
    if directory is None:
        return True
    try:
        Path(directory).mkdir(parents=True, exist_ok=True)
        for name, path in (("before.json", before), ("after.json", after)):
            shutil.copyfile(path, Path(directory) / name)
    except OSError as error:
        complain(f"graphbreak: {directory}: cannot be written: {reason(error)}")
        return False
    return True


class ElsewhereError(UserError):
    """Raised if something cannot be run elsewhere.

    ``words`` is the output of the failed program.
    """


@contextmanager
def directory(timeout: float) -> Iterator[Runner]:
    """Yield a runner whose programs may take ``timeout`` seconds; its directory is then removed."""
    with cleared_up(), runner(timeout) as one:
        yield one


class Terminated(KeyboardInterrupt):
    """Raised for a signal that ends the process."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def exit_code(stop: KeyboardInterrupt) -> int:
    """Return the exit code of a process that was interrupted, as shells do."""
    return 128 + (stop.number if isinstance(stop, Terminated) else signal.SIGINT)


@contextlib.contextmanager
def cleared_up() -> Iterator[None]:
    """Raise ``Terminated`` for signals in the block; signals that are ignored stay ignored.

    After a signal, output may fail because the terminal was closed; that is not an error.
    """
    before = {}
    came: list[int] = []

    def end(number: int, _: FrameType | None) -> None:
        if not came:  # the clearing up is not interrupted
            came.append(number)
            raise Terminated(number)

    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            with contextlib.suppress(ValueError):  # not the main thread
                before[number] = signal.signal(number, end)
    try:
        yield
    except OSError:
        if not came:
            raise
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        raise Terminated(came[0]) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
