"""``graphbreak compare``: shows what changed between two runs, by cause first."""

from __future__ import annotations

import argparse

from pytest_graphbreak.cli.messages import UNUSABLE, add_output, note, say_all, write
from pytest_graphbreak.cli.report import REPORTS
from pytest_graphbreak.report import comparison
from pytest_graphbreak.runs.incoming import load_all
from pytest_graphbreak.runs.union import union
from pytest_graphbreak.text.files import PAGE, without_collector

SAME, DIFFERS = 0, 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", metavar="BEFORE", help=f"the earlier run: {REPORTS}")
    parser.add_argument("after", metavar="AFTER", help="the later run")
    add_output(parser, "--markdown", PAGE, "write a comment for a pull request")
    parser.add_argument("--exit-code", action="store_true", help="exit with 1 if anything changed")


@without_collector()
def run(args: argparse.Namespace) -> int:
    """Compare both runs. Returns 0, with ``--exit-code`` 1 for a difference, 2 if unusable."""
    before, after = (union(load_all([run], note=note)) for run in (args.before, args.after))
    result = comparison.compare(before, after)
    if not args.markdown:
        say_all(comparison.lines(before, after, result))
    elif not write(args.markdown, comparison.comment(before, after, result)):
        return UNUSABLE
    return DIFFERS if args.exit_code and result.differs else SAME
