"""``graphbreak repro``: writes a script for each break and each cut, and runs each once.

A break is one of Dynamo; a cut is where a program of torch_xla alone, which has no breaks, starts a
new graph (``repair.lazy``). ``repair.repro`` writes the scripts and tries them on a bench, which is
where a program runs in a process of its own; here it is told what came of each.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_graphbreak.cli.messages import Progress, say
from pytest_graphbreak.cli.program import add_program, does_not_run, named_target, on_bench
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.repair.lazy import XLA
from pytest_graphbreak.repair.repro import Repro, Script
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench
from pytest_graphbreak.text.errors import UserError, reason
from pytest_graphbreak.text.numbers import plural
from pytest_graphbreak.text.output import label_line

DONE, UNVERIFIED = 0, 1
"""The exit codes: each script shows what it is to show, or one does not."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_program(parser)
    parser.add_argument("--out", metavar="DIR", default="repros", help="where to write (repros)")
    parser.add_argument(
        "--as-test", action="store_true", help="write regression tests with max_graphs"
    )


def run(args: argparse.Namespace) -> int:
    """Write the scripts.

    Returns 0 if each shows its break or cut, 1 if one does not, 2 if nothing runs.
    """
    target = named_target(args)
    with on_bench(args.timeout) as bench, Progress() as progress:
        record, scripts = _write_scripts(args, target, bench, progress)
    if not scripts:
        is_lazy = XLA in record.graphs
        words = ", and torch_xla cut no graph:" if is_lazy else ", so"
        say(f"No graph break came{words} there is nothing to reproduce.")
        return DONE
    cuts = sum(script.item.layer == XLA for script in scripts)
    counts = {"break": len(scripts) - cuts, "cut": cuts}
    words = " and ".join(plural(count, noun) for noun, count in counts.items() if count)
    verified = sum(script.verified for script in scripts)
    say(f"{verified} of {words} reproduced in {args.out}")
    return DONE if verified == len(scripts) else UNVERIFIED


def _write_scripts(
    args: argparse.Namespace, target: Target, bench: Bench, progress: Progress
) -> tuple[Record, list[Script]]:
    """Return what came, and the scripts, showing each when it is done. Raises ``UserError``."""
    progress.step(0, 1, f"{target.name} as it is")
    try:
        work = Repro(target, bench, Path(args.out), as_test=args.as_test)
    except OSError as error:
        raise UserError(f"{args.out}: cannot be written to: {reason(error)}") from None
    scripts: list[Script] = []
    try:
        if work.first.error is not None and not (work.first.record.breaks or work.lazy):
            raise does_not_run(target, work.first.error, work.first.stack, work.first.out)
        for script in work.run(progress.step):
            scripts.append(script)
            progress.clear()
            _show(script)
    finally:
        work.clean()
    return work.first.record, scripts


def _show(script: Script) -> None:
    name = f"{script.item.id}  " if script.item.id else ""
    state = "verified" if script.verified else "UNVERIFIED"
    say(label_line(state, f"{script.path}   {script.what}"))
    times = f", {plural(script.item.count, 'graph')}" if script.item.layer == XLA else ""
    say(label_line("", f"{name}{script.item.reason}{times}"))
    where = script.item.where
    say(label_line("", f"{where.file}:{where.line}"))
    if script.how:
        say(label_line("", script.how))
    if script.why:
        words = "tried before: " if script.verified else ""
        say(label_line("", f"{words}{script.why}"))
