"""``graphbreak export``: checks whether ``torch.export`` accepts what a program compiles.

The program runs once, in a process of its own (``repair.trial``) and without its compiler. There
``repair.exporting`` notes what the program calls of what it wants compiled, exports each of these
with the inputs of its first call, and returns a dict for each: its ``name`` and, by mode, the
failure as a ``Break`` or None.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, Final

from pytest_graphbreak.cli.messages import Progress, add_output, say, write_result
from pytest_graphbreak.cli.program import add_program, does_not_run, named_target, on_bench
from pytest_graphbreak.config.typed import this_command
from pytest_graphbreak.judging.findings import findings_of_record
from pytest_graphbreak.model.items import Break
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.repair.trial import TargetOrder
from pytest_graphbreak.report.lines import general_lines
from pytest_graphbreak.text.errors import UserError
from pytest_graphbreak.text.files import RESULT
from pytest_graphbreak.text.output import TextLine

EXPORTS, FAILS = 0, 1
"""The exit codes: everything exports in one of the modes, or something does not."""
MODES: Final = ("strict", "not strict")
"""The modes of ``torch.export``, as keys of what a trial returns: each with its failure or None."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_program(parser)
    add_output(parser, "--json", RESULT, "write the results as JSON")


def run(args: argparse.Namespace) -> int:
    """Export the program and return the exit code.

    It is 0 if everything exports in one of the two modes, 1 if something does not, 2 if the program
    does not run.
    """
    target = named_target(args)
    with on_bench(args.timeout) as trials, Progress() as progress:
        progress.step(0, 1, target.name)
        answer, out = trials.run(target, TargetOrder(kind="exporting"))
    exports: list[dict[str, Any]] = answer.get("exports") or []
    if answer.get("error") is not None:
        raise does_not_run(target, answer["error"], answer.get("stack") or (), out)
    if not exports:
        raise UserError(f"{target.name}: it calls nothing that it compiles")
    for export in exports:
        for line in _lines(export):
            say(line)
    write_result(args, {"target": target.name, "exports": exports})
    return FAILS if any(all(export[mode] for mode in MODES) for export in exports) else EXPORTS


def _lines(export: dict[str, Any]) -> Iterator[str | TextLine]:
    for mode in MODES:
        failure = export[mode]
        yield f"{export['name']}  {mode}: {'fails' if failure else 'exports'}"
        if failure:
            yield from _why(Break.from_dict(failure))


def _why(failure: Break) -> Iterator[TextLine]:
    """Yield the reason, its place and what to do, as for a red test."""
    for finding in findings_of_record(Record(layers=(failure.layer,), breaks=(failure,))):
        yield from general_lines(finding)
    if failure.id:
        yield TextLine(indent=6, command=this_command().graphbreak("explain", failure.id))
