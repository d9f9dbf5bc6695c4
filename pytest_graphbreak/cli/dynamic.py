"""``graphbreak dynamic``: compares static and dynamic sizes, in graphs and in time."""

from __future__ import annotations

import argparse
import sys

from pytest_graphbreak.cli.messages import Progress, add_output, say
from pytest_graphbreak.cli.program import add_program, does_not_run, find, on_bench, put_json
from pytest_graphbreak.repair.dynamic import Dims, Way, advice, ways
from pytest_graphbreak.text.errors import UserError
from pytest_graphbreak.text.files import RESULT
from pytest_graphbreak.text.terminal import columns, table

DONE = 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_program(parser)
    add_output(parser, "--json", RESULT, "write the counts and times as JSON")


def run(args: argparse.Namespace) -> int:
    """Compare the ways. Returns 0 if all was measured, 2 if the program does not run or compile."""
    target = find(args)
    with on_bench(args.timeout) as trials, Progress() as progress:
        results, dims = ways(trials, target, progress.step)
    first = results[0].trial
    if first.error is not None:
        raise does_not_run(target, first.error, first.stack, first.out)
    if not first.record.active:
        raise UserError(f"{target.name}: it compiles nothing")
    for line in _lines(results, dims, columns(sys.stdout)):
        say(line)
    data = {
        "target": target.name,
        "varies": dims,
        "ways": [way.to_dict() for way in results],
        "advice": list(advice(results, dims)),
    }
    put_json(args, data)
    return DONE


def _lines(results: list[Way], dims: Dims, width: int) -> list[str]:
    device = next((way.device for way in results if way.device), "")
    title = [f"{device} graphs"] if device else []
    rows = [("", "graphs", *title, "recompiles", "first call", "all calls", "one call")]
    rows += [
        (
            way.name,
            f"{way.graphs}{', then eager' if way.limited else ''}",
            *([str(way.device_graphs or 0)] if device else []),
            str(way.recompiles),
            *map(_time, way.times),
        )
        for way in results
    ]
    vary = [f"{name} in dimension {dim}" for name, numbers in dims.items() for dim in numbers]
    return [
        *table(rows, width),
        *(f"{way.name} fails: {way.error}" for way in results if way.error),
        f"sizes that vary: {', '.join(vary) or 'none'}",
        *advice(results, dims),
    ]


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds:.2f} s" if seconds >= 0.1 else f"{seconds * 1000:.2f} ms"
