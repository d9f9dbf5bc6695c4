"""``graphbreak repro``: a script of its own for each graph break, each run once."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_graphbreak.cli import ending
from pytest_graphbreak.cli.messages import complain, say
from pytest_graphbreak.cli.program import add_program, does_not_run, find
from pytest_graphbreak.cli.progress import Progress
from pytest_graphbreak.layers.children.runner import ServerError
from pytest_graphbreak.repair.repro import Repro, Script
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench, bench
from pytest_graphbreak.text.numbers import plural
from pytest_graphbreak.text.output import labelled

DONE, UNVERIFIED, UNUSABLE = 0, 1, 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_program(parser)
    parser.add_argument("--out", metavar="DIR", default="repros", help="where to write (repros)")
    parser.add_argument(
        "--as-test", action="store_true", help="write regression tests with max_graphs"
    )


def run(args: argparse.Namespace) -> int:
    """Write the scripts. 0 if each shows its break, 1 if one does not, 2 where nothing runs."""
    target = find("repro", args)
    if target is None:
        return UNUSABLE
    try:
        with ending.cleared_up(), bench(args.timeout) as desk:
            return _repro(args, target, desk)
    except ServerError as error:
        complain(f"graphbreak repro: {error}")
        return UNUSABLE


def _repro(args: argparse.Namespace, target: Target, desk: Bench) -> int:
    progress = Progress()
    progress.step(0, 1, f"{target.name} as it is")
    try:
        work = Repro(target, desk, Path(args.out), as_test=args.as_test)
    except OSError as error:
        progress.clear()
        complain(f"graphbreak repro: {args.out}: cannot be written to: {error.strerror or error}")
        return UNUSABLE
    first = work.first
    if first.error is not None and not first.record.breaks:
        progress.clear()
        work.clean()
        does_not_run("repro", target, first)
        return UNUSABLE
    scripts: list[Script] = []
    try:
        for script in work.run(progress.step):
            scripts.append(script)
            progress.clear()
            _show(script)
    finally:
        progress.clear()
        work.clean()
    verified = sum(script.verified for script in scripts)
    if not scripts:
        say("No graph break came, so there is nothing to reproduce.")
        return DONE
    say(f"{verified} of {plural(len(scripts), 'break')} reproduced in {args.out}")
    return DONE if verified == len(scripts) else UNVERIFIED


def _show(script: Script) -> None:
    name = f"{script.item.id}  " if script.item.id else ""
    state = "verified" if script.verified else "UNVERIFIED"
    say(labelled(state, f"{script.path}   {script.what}"))
    say(labelled("", f"{name}{script.item.reason}"))
    say(labelled("", f"{script.item.where.file}:{script.item.where.line}"))
    if script.how:
        say(labelled("", script.how))
    if script.why:
        words = "smaller was not possible: " if script.verified else ""
        say(labelled("", f"{words}{script.why}"))
    if script.note:
        say(labelled("", f"not by its path: {script.note}"))
