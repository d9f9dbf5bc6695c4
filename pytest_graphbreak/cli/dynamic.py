"""``graphbreak dynamic``: compares static and dynamic sizes, in graphs and in time."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from pytest_graphbreak.cli.messages import Progress, say
from pytest_graphbreak.cli.program import add_program, does_not_run, find, on_bench, put_json
from pytest_graphbreak.repair.dynamic import Marks, Way, advice, typed, ways
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.text.output import UserError
from pytest_graphbreak.text.terminal import columns, table

DONE = 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_program(parser)
    parser.add_argument("--json", metavar="FILE", help="write the counts and times as JSON")


def run(args: argparse.Namespace) -> int:
    """Compare the ways. Returns 0 if all was measured, 2 if the program does not run or compile."""
    target = find(args)
    with on_bench(args.timeout) as trials, Progress() as progress:
        found, marks = ways(trials, target, progress.step)
    first = found[0]
    if first.error is not None:
        raise does_not_run(target, first.error, first.stack, first.out)
    if not first.record.active:
        raise UserError(f"{target.name}: it compiles nothing")
    for line in _lines(found, marks, columns(sys.stdout)):
        say(line)
    put_json(args.json, _data(target, found, marks))
    return DONE


def _lines(found: list[Way], marks: Marks, width: int) -> list[str]:
    device = next((way.device for way in found if way.device), "")
    title = [f"{device} graphs"] if device else []
    rows = [("", "graphs", *title, "recompiles", "first call", "all calls", "one call")]
    rows += [
        (
            way.name,
            str(way.graphs),
            *([str(way.device_graphs or 0)] if device else []),
            str(way.recompiles),
            _time(way.first),
            _time(way.all),
            _time(way.call),
        )
        for way in found
    ]
    varies = ", ".join(
        f"{typed(name)} in dimension {dim}" for name, dims in marks.items() for dim in dims
    )
    return [
        *table(rows, width),
        *(f"{way.name} fails: {way.error}" for way in found if way.error),
        f"sizes that vary: {varies or 'none'}",
        f"take {advice(found, marks)}",
    ]


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds:.2f} s" if seconds >= 0.1 else f"{seconds * 1000:.2f} ms"


def _data(target: Target, found: list[Way], marks: Marks) -> dict[str, Any]:
    return {
        "target": target.name,
        "varies": dict(marks),
        "ways": [way.to_dict() for way in found],
        "advice": advice(found, marks),
    }
