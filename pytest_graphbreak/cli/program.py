"""What the commands have in common that run a program: which one, where, and that it fails."""

from __future__ import annotations

import argparse
import importlib.util
import shlex
import sys
from collections.abc import Callable
from typing import Final

from pytest_graphbreak.cli import ending
from pytest_graphbreak.cli.elsewhere import add_timeout
from pytest_graphbreak.cli.messages import complain
from pytest_graphbreak.layers.children.runner import ServerError
from pytest_graphbreak.repair.target import Target, TargetError, parse
from pytest_graphbreak.repair.trial import Bench, Trial, bench

UNUSABLE: Final = 2


def add_program(parser: argparse.ArgumentParser) -> None:
    """The arguments that name the program, and how long a run of it may take."""
    parser.add_argument(
        "target", metavar="SCRIPT|NODEID", help="script.py, or tests/test_a.py::test"
    )
    parser.add_argument(
        "--args",
        type=shlex.split,
        default=[],
        metavar="TEXT",
        help="the script's own arguments, as one text: --args='--steps 3'",
    )
    add_timeout(parser, 900, "one run")


def find(command: str, args: argparse.Namespace) -> Target | None:
    """The program that was named; None after saying why there is none."""
    if importlib.util.find_spec("torch") is None:
        complain(
            f"graphbreak {command}: torch is not installed in this Python ({sys.executable}): "
            "run it with the Python that runs the program"
        )
        return None
    try:
        return parse(args.target, args.args)
    except TargetError as error:
        complain(f"graphbreak {command}: {error}")
        return None


def on_bench(command: str, timeout: float, work: Callable[[Bench], int]) -> int:
    """The exit code of what ``work`` does with a bench, which is gone afterwards."""
    try:
        with ending.cleared_up(), bench(timeout) as trials:
            return work(trials)
    except ServerError as error:
        complain(f"graphbreak {command}: {error}")
        return UNUSABLE


def does_not_run(command: str, target: Target, first: Trial) -> None:
    """Say that the program fails as it is, with the last lines of what it printed."""
    complain(f"graphbreak {command}: {target.name} does not run: {first.error}")
    for line in first.out.strip().splitlines()[-12:]:
        complain(f"    {line}")
