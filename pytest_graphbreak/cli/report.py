"""``graphbreak report``: JSON reports become pages that people read."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pytest_graphbreak.cli.artifacts import named
from pytest_graphbreak.cli.messages import listing, say, say_all, write
from pytest_graphbreak.config.checkout import CheckoutError, find
from pytest_graphbreak.model.report import RunReport
from pytest_graphbreak.report import accepting, explained, html, junit, look, markdown
from pytest_graphbreak.report.accepting import GitHubRun
from pytest_graphbreak.report.root_causes import by_nodeid, root_causes
from pytest_graphbreak.report.view import (
    NAMED,
    NOTHING,
    CheckNotes,
    ProfileRun,
    counted,
    row,
    runs,
    standing,
    weight,
)
from pytest_graphbreak.runs.incoming import load_all
from pytest_graphbreak.text.garbage import uncollected
from pytest_graphbreak.text.numbers import plural

REPORTS: Final = "JSON reports, directories of them, or zip archives as GitHub keeps them"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("reports", nargs="+", metavar="REPORT", help=REPORTS)
    add_outputs(parser)


def add_outputs(parser: argparse.ArgumentParser) -> None:
    """The options that name a page to write."""
    parser.add_argument("--markdown", metavar="F", help="write a comment for a pull request")
    parser.add_argument("--html", metavar="F", help="write one self-contained page")
    parser.add_argument("--junit", metavar="F", help="write JUnit XML")
    parser.add_argument(
        "--of-run",
        metavar="ID",
        help="the run of GitHub Actions that made the reports: its number or its address, for "
        "the command that accepts them",
    )


def run_of(args: argparse.Namespace) -> GitHubRun | None:
    """The run that ``--of-run`` names, in the repository of this workflow. ``ReportError``."""
    return None if args.of_run is None else named(args.of_run, os.environ.get("GITHUB_REPOSITORY"))


def accept_line(made_by: GitHubRun | None) -> str:
    """What accepts the counts of a run in any checkout; nothing where no run is known."""
    return "" if made_by is None else accepting.command("", run=made_by)


def run(args: argparse.Namespace) -> int:
    """Write the pages that were asked for, or say the main things. 0, or 2 for bad reports."""
    with uncollected():
        made_by = run_of(args)
        reports = load_all(args.reports)
        if args.markdown or args.html or args.junit:
            notes = CheckNotes(accept=accept_line(made_by))
            return 0 if write_pages(reports, args, notes) else 2
        show(runs(reports))
        return 0


def write_pages(
    reports: Sequence[RunReport], args: argparse.Namespace, notes: CheckNotes = NOTHING
) -> bool:
    """Write every page that ``args`` names; False where one could not be written."""
    found = runs(reports)
    pages: dict[str, Callable[[], str]] = {
        "markdown": lambda: markdown.render(found, notes=notes),
        "html": lambda: html.render(found, sources_root(), notes),
        "junit": lambda: junit.render(found),
    }
    written = [write(path, page()) for name, page in pages.items() if (path := getattr(args, name))]
    return all(written)


def sources_root() -> Path | None:
    """Where source excerpts come from; nowhere if the checkout cannot be read."""
    try:
        return find(Path.cwd()).root
    except CheckoutError:
        return None


def show(found: Sequence[ProfileRun]) -> None:
    """The main things, on the terminal."""
    for one in found:
        tests = sorted(one.tests, key=weight)
        say_all(explained.lines(root_causes(by_nodeid(tests))))
        for verdict in NAMED:
            listing(verdict, (row(test) for test in tests if standing(test) == verdict))
        listing("unmeasured", one.unmeasured)
        listing("ungated", one.ungated)
        listing("stale", one.stale)
        say_all(look.lines(tests))
        parts = ", ".join(f"{count:,} {name}" for name, count in counted(tests).items())
        say(f"{plural(len(tests), 'test')} on {one.label}: {parts or 'none'}")
