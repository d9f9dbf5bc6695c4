"""``graphbreak compare``: what changed between two sets of runs, by cause first."""

from __future__ import annotations

import argparse
from typing import Final

from pytest_graphbreak.cli.messages import complain, say, write, write_report
from pytest_graphbreak.cli.report import REPORTS
from pytest_graphbreak.report.comparison import data, markdown, page, text
from pytest_graphbreak.runs.compare import Comparison, compare
from pytest_graphbreak.runs.incoming import ReportError, load_all
from pytest_graphbreak.text.garbage import uncollected

SAME, DIFFERS, UNUSABLE = 0, 1, 2
_BOTH: Final = (
    "name two reports, BEFORE and AFTER; where a side has several, --before A B --after C D"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("reports", nargs="*", metavar="REPORT", help=f"BEFORE and AFTER: {REPORTS}")
    parser.add_argument("--before", nargs="+", default=[], metavar="REPORT", help="the one side")
    parser.add_argument("--after", nargs="+", default=[], metavar="REPORT", help="the other side")
    parser.add_argument("--json", metavar="F", help="all of it, as JSON")
    parser.add_argument("--markdown", metavar="F", help="a comment for a pull request")
    parser.add_argument("--html", metavar="F", help="a page with both sides of each test")
    parser.add_argument(
        "--exit-code", action="store_true", help="end with 1 where anything differs but words"
    )


def run(args: argparse.Namespace) -> int:
    """Compare. 0 whatever is found (1 with ``--exit-code``), 2 for reports that cannot be used."""
    try:
        with uncollected():
            before, after = _sides(args)
            found = compare(load_all(before), load_all(after))
            return _told(args, found)
    except ReportError as error:
        complain(f"graphbreak compare: {error}")
        return UNUSABLE


def _sides(args: argparse.Namespace) -> tuple[list[str], list[str]]:
    """The reports of either side. Raises ``ReportError``."""
    if args.before and args.after and not args.reports:
        return args.before, args.after
    if len(args.reports) == 2 and not args.before and not args.after:
        return [args.reports[0]], [args.reports[1]]
    raise ReportError(_BOTH)


def _told(args: argparse.Namespace, found: Comparison) -> int:
    """Say it, or write the pages that were asked for."""
    written = []
    if args.json:
        written.append(write_report(args.json, data.document(found)))
    if args.markdown:
        written.append(write(args.markdown, markdown.render(found)))
    if args.html:
        written.append(write(args.html, page.render(found)))
    if not written:
        for line in text.lines(found):
            say(line)
    if not all(written):
        return UNUSABLE
    return DIFFERS if args.exit_code and found.differs else SAME
