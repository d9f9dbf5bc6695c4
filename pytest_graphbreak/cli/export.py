"""``graphbreak export``: checks whether ``torch.export`` accepts what a program compiles."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, Final

from pytest_graphbreak.advice import match
from pytest_graphbreak.cli.messages import Progress, say
from pytest_graphbreak.cli.program import add_program, does_not_run, find, on_bench, put_json
from pytest_graphbreak.model.record import Break
from pytest_graphbreak.text.output import TextLine, UserError

EXPORTS, FAILS = 0, 1
MODES: Final = ("strict", "not strict")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_program(parser)
    parser.add_argument("--json", metavar="FILE", help="write the results as JSON")


def run(args: argparse.Namespace) -> int:
    """Export the program and return the exit code.

    It is 0 if everything exports in one of the two modes, 1 if something does not, 2 if the program
    does not run.
    """
    target = find(args)
    with on_bench(args.timeout) as trials, Progress() as progress:
        progress.step(0, 1, target.name)
        answer, out = trials.run(target, {"kind": "exporting"})
    found: list[dict[str, Any]] = answer.get("exports") or []
    if answer.get("error") is not None:
        raise does_not_run(target, answer["error"], answer.get("stack") or (), out)
    if not found:
        raise UserError(f"{target.name}: it calls nothing that it compiles")
    for one in found:
        for line in _lines(one):
            say(line)
    put_json(args.json, {"target": target.name, "exports": found})
    return FAILS if any(all(one[mode] for mode in MODES) for one in found) else EXPORTS


def _lines(one: dict[str, Any]) -> Iterator[str | TextLine]:
    for mode in MODES:
        failure = one[mode]
        yield f"{one['name']}  {mode}: {'fails' if failure else 'exports'}"
        if failure:
            yield from _why(Break.from_dict(failure))


def _why(item: Break) -> Iterator[str | TextLine]:
    """Yield the reason, its place and what to do, as for a red test."""
    yield f"  {item.id or '-'}  {item.reason}"
    if item.where.file:
        yield f"      {item.where.file}:{item.where.line} in {item.where.function}"
        if item.where.code:
            yield TextLine(item.where.code, "source", 10)
    if line := match.short(item):
        yield f"      fix: {line}"
    if item.id:
        yield f"      graphbreak explain {item.id}"
