"""``graphbreak repro``: a script of its own for each graph break, each run once."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from pytest_graphbreak.commands.talk import complain, plural, say
from pytest_graphbreak.repair.progress import Progress
from pytest_graphbreak.repair.repro import Repro, Script
from pytest_graphbreak.repair.target import TargetError, parse
from pytest_graphbreak.repair.trial import bench

HELP = "write scripts that reproduce graph breaks"

DONE, UNVERIFIED, UNUSABLE = 0, 1, 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
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
    parser.add_argument("--out", metavar="DIR", default="repros", help="where to write (repros)")
    parser.add_argument(
        "--as-test", action="store_true", help="write regression tests with max_graphs"
    )
    parser.add_argument(
        "--timeout", type=float, default=900, metavar="S", help="seconds for one run (900)"
    )


def run(args: argparse.Namespace) -> int:
    """Write the scripts. 0 if each shows its break, 1 if one does not, 2 where nothing runs."""
    try:
        target = parse(args.target, args.args)
    except TargetError as error:
        complain(f"graphbreak repro: {error}")
        return UNUSABLE
    progress = Progress()
    with bench(args.timeout) as desk:
        progress.step(0, 1, f"{target.name} as it is")
        work = Repro(target, desk, Path(args.out), as_test=args.as_test)
        first = work.first
        if first.error is not None and not first.record.breaks:
            progress.clear()
            complain(f"graphbreak repro: {target.name} does not run: {first.error}")
            for line in first.out.strip().splitlines()[-12:]:
                complain(f"    {line}")
            return UNUSABLE
        scripts: list[Script] = []
        try:
            for script in work.run(progress.step):
                scripts.append(script)
                progress.clear()
                _tell(script)
        finally:
            progress.clear()
            work.clean()
    verified = sum(script.verified for script in scripts)
    if not scripts:
        say("No graph break came, so there is nothing to reproduce.")
        return DONE
    say(f"{verified} of {plural(len(scripts), 'break')} reproduced in {args.out}")
    return DONE if verified == len(scripts) else UNVERIFIED


def _tell(script: Script) -> None:
    name = f"{script.item.id}  " if script.item.id else ""
    say(f"{'verified' if script.verified else 'UNVERIFIED':<10} {script.path}   {script.what}")
    say(f"           {name}{script.item.reason}")
    say(f"           {script.item.where.file}:{script.item.where.line}")
    if script.why:
        say(
            f"           smaller was not possible: {script.why}"
            if script.verified
            else f"           {script.why}"
        )
