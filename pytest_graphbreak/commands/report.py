"""``graphbreak report``: JSON reports become pages that people read."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from pytest_graphbreak.checkout import CheckoutError, find
from pytest_graphbreak.commands.talk import complain, listing, plural, say, write
from pytest_graphbreak.incoming import Report, ReportError, load_all, uncollected
from pytest_graphbreak.record import Plain
from pytest_graphbreak.report import html, junit, markdown
from pytest_graphbreak.report.view import NOTHING, TOLD, Aside, Run, counted, moves, runs, weight

HELP = "turn JSON reports into pages that people read"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("reports", nargs="+", metavar="REPORT.json")
    add_outputs(parser)


def add_outputs(parser: argparse.ArgumentParser) -> None:
    """The options that name a page to write."""
    parser.add_argument("--markdown", metavar="F", help="a comment for a pull request")
    parser.add_argument("--html", metavar="F", help="one self-contained page")
    parser.add_argument("--junit", metavar="F", help="JUnit XML")


def run(args: argparse.Namespace) -> int:
    """Write the pages that were asked for, or say the main things. 0, or 2 for bad reports."""
    try:
        with uncollected():
            reports = load_all(args.reports)
            if args.markdown or args.html or args.junit:
                return 0 if write_pages(reports, args) else 2
            tell(runs(reports))
            return 0
    except ReportError as error:
        complain(f"graphbreak report: {error}")
        return 2


def write_pages(
    reports: Sequence[Report], args: argparse.Namespace, aside: Aside = NOTHING
) -> bool:
    """Write every page that ``args`` names; False where one could not be written."""
    found = runs(reports)
    pages: dict[str, Callable[[], str]] = {
        "markdown": lambda: markdown.render(found, aside=aside),
        "html": lambda: html.render(found, _root(), aside),
        "junit": lambda: junit.render(found),
    }
    written = [write(path, page()) for name, page in pages.items() if (path := getattr(args, name))]
    return all(written)


def _root() -> Path | None:
    """Where source excerpts come from; nowhere if the checkout cannot be read."""
    try:
        return find(Path.cwd()).root
    except CheckoutError:
        return None


def tell(found: Sequence[Run]) -> None:
    """The main things, on the terminal."""
    for one in found:
        tests = sorted(one.tests, key=weight)
        for verdict in TOLD:
            listing(verdict, (row(test) for test in tests if test["verdict"] == verdict))
        listing("unmeasured", one.unmeasured)
        listing("ungated", one.ungated)
        listing("stale", one.stale)
        parts = ", ".join(f"{count:,} {name}" for name, count in counted(tests).items())
        say(f"{plural(len(tests), 'test')} on {one.label}: {parts or 'none'}")


def row(test: Plain) -> str:
    """One test on one line."""
    counts = ", ".join(str(move) for move in moves(test))
    return f"{test['nodeid']}   {counts}".rstrip()
