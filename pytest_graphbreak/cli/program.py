"""Shared parts of the commands that run a program: ``fix``, ``prove``, ``repro`` and others.

Each adds the arguments that name the program (``add_program``), makes a ``Target`` of them
(``named_target``), and runs it in the block of ``on_bench``. A bench (``repair.trial.Bench``) is
where a program runs as often as a command needs, each time in a process of its own; its temporary
files go with it. A program that fails unpatched ends the command (``does_not_run``).
"""

from __future__ import annotations

import argparse
import importlib.util
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from pytest_graphbreak.cli import cleared_up
from pytest_graphbreak.model.items import Frame
from pytest_graphbreak.repair.target import Target, parse
from pytest_graphbreak.repair.trial import LOG_OF_TORCH, Bench, bench
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
    """Yield a bench, which is removed however the command ends, by a signal as well."""
    with cleared_up(), bench(timeout) as trials:
        yield trials


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
