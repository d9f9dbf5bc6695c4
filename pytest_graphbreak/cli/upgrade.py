"""``graphbreak upgrade``: runs the same tests with other versions of packages, and compares."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from pytest_graphbreak.cli.compare import DIFFERS, add_pages, show
from pytest_graphbreak.cli.elsewhere import (
    ElsewhereError,
    add_reports,
    add_timeout,
    directory,
    keep,
)
from pytest_graphbreak.cli.messages import UNUSABLE, Progress, say
from pytest_graphbreak.cli.versions.environment import Environment, Tests, make, present
from pytest_graphbreak.layers.children.runner import Runner
from pytest_graphbreak.model.report import RunReport
from pytest_graphbreak.runs.compare import compare
from pytest_graphbreak.text.output import TextLine, labelled

DONE: Final = 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "graphbreak upgrade REQUIREMENT... [options] [-- pytest arguments]"
    parser.add_argument(
        "requirements", nargs="+", metavar="REQUIREMENT", help='in the syntax of pip: "torch==2.15"'
    )
    add_pages(parser)
    add_reports(parser)
    add_timeout(parser, 3600, "one installation or one run")


def run(args: argparse.Namespace) -> int:
    """Install, run both versions and compare. Returns 0, or 2 if one of these cannot be done."""
    with directory(args.timeout) as work, Progress() as progress:
        return _upgrade(args, work, progress)


def _upgrade(args: argparse.Namespace, work: Runner, progress: Progress) -> int:
    progress.step(0, 3, f"installing {', '.join(args.requirements)}", work.status)
    layer = make(work, "environment", args.requirements)
    progress.clear()
    if not layer.installed:
        raise ElsewhereError(
            "the environment has all of this already, so both sides would be the same"
        )
    for line in _installed(layer):
        say(line)
    tests = Tests(work, args.rest)
    reports: list[RunReport] = []
    paths: list[Path] = []
    for number, (where, name) in enumerate(((present(), "before"), (layer, "after")), 1):
        progress.step(number, 3, f"the tests {name}", tests.status)
        done = tests.run(where, name, cwd=Path.cwd())
        progress.clear()
        if done.report is None:
            raise ElsewhereError(f"{name}: {done.why}", done.words)
        reports.append(done.report)
        paths.append(done.path)
    before, after = reports
    found = compare([before], [after])
    written = show(args, found)
    if not keep(args.reports, *paths) or not written:
        return UNUSABLE
    return DIFFERS if args.exit_code and found.differs else DONE


def _installed(layer: Environment) -> list[TextLine]:
    """Return lines about what the layer has installed, and about conflicts in it."""
    names = ", ".join(f"{name} {version}" for name, version in layer.installed.items())
    return [labelled("installed", names), *(labelled("note", one) for one in layer.conflicts)]
