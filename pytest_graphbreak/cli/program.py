"""Shared parts of commands that run a program: its arguments, its bench, its failure, its end.

A bench (``repair.trial.Bench``) runs the program, as often as a command needs, each time in a
process of its own. ``put_json`` writes what a command came to. The second half is how a command
ends: SIGTERM and SIGHUP end it as Ctrl-C does, after clearing up.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import shlex
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

from pytest_graphbreak.model.items import Frame
from pytest_graphbreak.repair.target import Target, parse
from pytest_graphbreak.repair.trial import LOG_OF_TORCH, Bench, bench
from pytest_graphbreak.text import files
from pytest_graphbreak.text.errors import UserError

_TIMEOUT: Final = 900
"""The usual limit of the time of a run, in seconds."""
_LONGEST: Final = 1e6
"""The longest timeout in seconds, about eleven days."""


def add_program(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name the program, and limit the time of a run."""
    parser.add_argument(
        "target", metavar="SCRIPT|NODEID", help="script.py, or tests/test_a.py::test"
    )
    add_arguments_of(parser)


def add_arguments_of(parser: argparse.ArgumentParser) -> None:
    """Add the program's own arguments, and the limit of the time of a run."""
    parser.add_argument(
        "--args",
        type=shlex.split,
        default=[],
        metavar="TEXT",
        help="the script's own arguments, as one text: --args='--steps 3'",
    )
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=_TIMEOUT,
        metavar="S",
        help=f"seconds for one run ({_TIMEOUT})",
    )


def _seconds(text: str) -> float:
    """Return a timeout in seconds. Raises ``ValueError``, which argparse reports."""
    seconds = float(text)
    if not 0 < seconds <= _LONGEST:
        raise ValueError
    return seconds


_seconds.__name__ = "number of seconds"  # the name in argparse's messages


def check_torch() -> None:
    """Raise ``UserError`` if nothing can be run in this Python."""
    if importlib.util.find_spec("torch") is None:
        raise UserError(
            f"torch is not installed in this Python ({sys.executable}): "
            "run it with the Python that runs the program"
        )


def named_target(args: argparse.Namespace) -> Target:
    """Return the program that was named. Raises ``UserError``."""
    check_torch()
    return parse(args.target, args.args)


@contextmanager
def on_bench(timeout: float) -> Iterator[Bench]:
    """Yield a bench, which is removed however the command ends."""
    with cleared_up(), bench(timeout) as trials:
        yield trials


def put_json(args: argparse.Namespace, data: Mapping[str, Any]) -> None:
    """Write the result of a command if a file for it was named."""
    if args.json:
        path = Path(args.json)
        files.refuse_foreign(path, files.RESULT)
        result = {files.RESULT_KEY: f"graphbreak {args.command}", **data}
        files.put(path, f"{json.dumps(result, indent=2)}\n".encode())


_MOST_FRAMES: Final = 4
"""The number of the user's calls that are shown of a program that fails, the innermost."""
_MOST_LINES: Final = 6
"""The number of lines of its output, the last ones."""


def does_not_run(
    target: Target, error: str, stack: Sequence[Mapping[str, Any]], out: str
) -> UserError:
    """Return the error for a program that fails unpatched.

    With the last of the user's lines that led there (``child.user_frames``), and with the last
    lines of the program's output.
    """
    words = [
        line for frame in stack[-_MOST_FRAMES:] for line in _frame_lines(Frame.from_dict(frame))
    ]
    printed = [line for line in out.strip().splitlines() if not LOG_OF_TORCH.match(line)]
    if printed and words:
        words.append("the end of what it printed:")
    words += printed[-_MOST_LINES:]
    if not target.test and target.path.name.startswith("test_"):
        words.append(f"it was run as a script; a test of it is named as {target.name}::test_name")
    return UserError(f"{target.name} does not run: {error}", words)


def _frame_lines(frame: Frame) -> list[str]:
    return [f"{frame.file}:{frame.line} in {frame.function}", f"    {frame.code}"]


# Signals and exit codes.


class Terminated(KeyboardInterrupt):
    """Raised for a signal that ends the process.

    So whatever clears up at Ctrl-C does it for these signals, too.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def exit_code(stop: KeyboardInterrupt) -> int:
    """Return the exit code of a process that was interrupted, as shells do: 130 for SIGINT."""
    return 128 + (stop.number if isinstance(stop, Terminated) else signal.SIGINT)


@contextlib.contextmanager
def cleared_up() -> Iterator[None]:
    """Raise ``Terminated`` for signals in the block; signals that are ignored stay ignored.

    After a signal, output may fail because the terminal was closed; that is not an error.
    """
    before = {}
    came: list[int] = []  # the signal, once there was one

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
