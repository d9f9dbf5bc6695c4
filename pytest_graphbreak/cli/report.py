"""``graphbreak report``: turns JSON reports into pages for people.

``add_arguments``, ``run`` and ``show`` are this command. The functions below them are shared with
``accept``, ``check``, ``compare`` and ``explain``, the other commands on reports: their common
options, the pages that they write, and the command that accepts what was counted.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Final

from pytest_graphbreak.artifacts.download import github_run
from pytest_graphbreak.artifacts.incoming import load_all
from pytest_graphbreak.cli.messages import add_output, note, say, say_all, say_list, write
from pytest_graphbreak.config.checkout import CheckoutError, find_checkout
from pytest_graphbreak.config.typed import GitHubRun, Typed
from pytest_graphbreak.model.report import RunReport
from pytest_graphbreak.report import html, markdown
from pytest_graphbreak.report.root_causes import by_nodeid, root_cause_lines, root_causes
from pytest_graphbreak.report.runs import NO_NOTES, CheckNotes, ProfileRun, runs_of
from pytest_graphbreak.report.standing import NAMED, row, standing, standing_words, weight
from pytest_graphbreak.report.unjudged import unjudged_lines
from pytest_graphbreak.text.errors import UserError
from pytest_graphbreak.text.files import PAGE, without_collector
from pytest_graphbreak.text.numbers import plural

REPORTS: Final = "JSON reports, directories of them, or zip archives as GitHub keeps them"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("reports", nargs="+", metavar="REPORT", help=REPORTS)
    add_outputs(parser)


def run(args: argparse.Namespace) -> int:
    """Write the requested pages, or print a summary. Returns 0, or 2 for bad reports."""
    with without_collector():
        made_by = run_of(args)
        reports = load_all(args.reports, note=note)
        if any(getattr(args, name) for name in PAGES):
            notes = CheckNotes(accept=accept_line(made_by, Typed()))
            return 0 if write_pages(reports, args, notes) else 2
        show(runs_of(reports))
        return 0


def show(runs: Sequence[ProfileRun]) -> None:
    """Print a summary on the terminal."""
    for of_profile in runs:
        tests = sorted(of_profile.tests, key=weight)
        say_all(root_cause_lines(root_causes(by_nodeid(tests))))
        for verdict in NAMED:
            say_list(verdict, (row(test) for test in tests if standing(test) == verdict))
        say_list("unmeasured", of_profile.unmeasured)
        say_list("ungated", of_profile.ungated)
        say_list("stale", of_profile.stale)
        say_all(unjudged_lines(tests))
        say(f"{plural(len(tests), 'test')} on {of_profile.label}: {standing_words(tests)}")


# The parts that the commands on reports share.


def add_outputs(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a page to write."""
    for name, (words, _) in PAGES.items():
        add_output(parser, f"--{name}", PAGE, words)
    parser.add_argument(
        "--of-run",
        metavar="ID",
        help="the run of GitHub Actions that made the reports: its number or its address, for "
        "the command that accepts them",
    )


def add_directory(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--graph-budget-dir",
        metavar="DIR",
        help="directory of the baselines (default: graph_budget_dir of the ini file, or baselines)",
    )


def filter_of_tests(
    text: str | None, nodeids: Collection[str], gone: Collection[str] = ()
) -> Callable[[str], bool]:
    """Return the filter of ``--tests``, which takes a node id.

    ``nodeids`` are the tests of the reports, ``gone`` those of entries that may be dropped. Raises
    ``UserError`` if the filter takes none of them: it is a typing error.
    """
    takes = _filter(text, {*nodeids, *gone})
    if text is not None and not any(map(takes, (*nodeids, *gone))):
        words = f"no test of these reports matches; they have {plural(len(nodeids), 'test')}"
        raise UserError(f"--tests {text}: {words}")
    return takes


def _filter(text: str | None, nodeids: Collection[str]) -> Callable[[str], bool]:
    """Return the filter for a text.

    The whole id of a test selects only this test, so that the command which a failure prints does
    not include others. Square brackets are literal, as node ids often have them.
    """
    if text is None:
        return lambda nodeid: True
    if text in nodeids:
        return lambda nodeid: nodeid == text
    if "*" not in text and "?" not in text:
        return lambda nodeid: text in nodeid
    expression = re.compile(fnmatch.translate(text.replace("[", "[[]")))
    return lambda nodeid: expression.match(nodeid) is not None


def run_of(args: argparse.Namespace) -> GitHubRun | None:
    """Return the CI run of ``--of-run``: a number is of this workflow's repository.

    An address names its own. Raises ``ReportError``.
    """
    if args.of_run is None:
        return None
    here = os.environ.get("GITHUB_REPOSITORY") if args.of_run.isdecimal() else None
    return github_run(args.of_run, here)


def accept_line(made_by: GitHubRun | None, typed: Typed) -> str:
    """Return the command that accepts the counts of a CI run, or "" if no run is known.

    ``typed`` is the command that runs now, and gives its ``--graph-budget-dir``, if it has one.
    """
    return "" if made_by is None else typed.accept(run=made_by)


def write_pages(
    reports: Sequence[RunReport], args: argparse.Namespace, notes: CheckNotes = NO_NOTES
) -> bool:
    """Write every page that ``args`` names; return False if one could not be written."""
    runs = runs_of(reports)
    written = [
        write(path, page(runs, notes))
        for name, (_, page) in PAGES.items()
        if (path := getattr(args, name))
    ]
    return all(written)


PAGES: Final[dict[str, tuple[str, Callable[[Sequence[ProfileRun], CheckNotes], str]]]] = {
    "markdown": (
        "write a comment for a pull request",
        lambda runs, notes: markdown.render(runs, notes=notes),
    ),
    "html": (
        "write one self-contained page",
        lambda runs, notes: html.render(runs, sources_root(), notes),
    ),
}
"""The output formats of reports by their options: the help text, and the renderer."""


def sources_root() -> Path | None:
    """Return the root for source excerpts, or None if the checkout cannot be read."""
    try:
        return find_checkout(Path.cwd()).root
    except CheckoutError:
        return None
