"""``graphbreak doctor``: what works here and what does not, and what to do about it."""

from __future__ import annotations

import argparse

from pytest_graphbreak.cli.check import add_directory
from pytest_graphbreak.cli.doctor.checks import NOTE, OK, PROBLEM, CheckResult, examine
from pytest_graphbreak.cli.messages import say
from pytest_graphbreak.text.numbers import plural
from pytest_graphbreak.text.output import LEVELS, TextLine


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_directory(parser)


def run(args: argparse.Namespace) -> int:
    """Say each finding as it is found. 1 if the gate could not run here, else 0."""
    found = []
    for finding in examine(args.graph_budget_dir):
        found.append(finding)
        _show(finding)
    problems = sum(finding.state == PROBLEM for finding in found)
    say()
    if problems:
        say(f"the gate could not run here, or not see everything: {plural(problems, 'problem')}")
        return 1
    say("the gate can run here")
    return 0


_SIGNS = {OK: "ok", NOTE: "note", PROBLEM: "PROBLEM"}


def _show(finding: CheckResult) -> None:
    state = _SIGNS[finding.state]
    say(TextLine(finding.what, LEVELS[state], head=f"{state:<8} {finding.about:<10} "))
    if finding.do:
        say(TextLine(finding.do, "advice", indent=20, head="-> ", command=finding.command))
