"""``graphbreak compare``: shows what changed between two sets of runs, by cause first."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from pytest_graphbreak.baseline.changes import FileChange
from pytest_graphbreak.cli.accept import Offer, add_writing, offered, refuse, settle, show_changes
from pytest_graphbreak.cli.messages import UNUSABLE, note, say, say_all, write, write_report
from pytest_graphbreak.cli.report import REPORTS
from pytest_graphbreak.config.checkout import Checkout, find
from pytest_graphbreak.config.git import GitError, git
from pytest_graphbreak.model.report import RunReport
from pytest_graphbreak.report.comparison import commit, page, text
from pytest_graphbreak.runs import comparison
from pytest_graphbreak.runs.compare import compare
from pytest_graphbreak.runs.comparison import Comparison
from pytest_graphbreak.runs.incoming import ReportError, load_all
from pytest_graphbreak.runs.union import union
from pytest_graphbreak.text.files import uncollected
from pytest_graphbreak.text.output import TextLine

SAME, DIFFERS = 0, 1
_BOTH: Final = (
    "name two reports, BEFORE and AFTER; where a side has several, --before A B --after C D"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("reports", nargs="*", metavar="REPORT", help=f"BEFORE and AFTER: {REPORTS}")
    parser.add_argument(
        "--before", nargs="+", default=[], metavar="REPORT", help="the earlier side"
    )
    parser.add_argument("--after", nargs="+", default=[], metavar="REPORT", help="the later side")
    add_pages(parser)
    group = parser.add_argument_group("baselines, from what the later side measured")
    group.add_argument("--update-baselines", action="store_true", help="write them, as accept does")
    group.add_argument("--patch", metavar="F", help="write a patch of them instead")
    group.add_argument(
        "--message", metavar="F", help="where to write the commit message (default: print it)"
    )
    add_writing(group)


def add_pages(parser: argparse.ArgumentParser) -> None:
    """Add the options for the output files of a comparison and its exit code."""
    parser.add_argument("--json", metavar="F", help="write the comparison as JSON")
    parser.add_argument("--markdown", metavar="F", help="write a comment for a pull request")
    parser.add_argument("--html", metavar="F", help="write a page with both sides of each test")
    parser.add_argument(
        "--exit-code", action="store_true", help="exit with 1 if anything but wording is different"
    )


def run(args: argparse.Namespace) -> int:
    """Compare both sides and return the exit code.

    It is 0, or 1 for a difference with ``--exit-code``, or 2 if reports cannot be used. If
    baselines are to be written, it is 1 if that was declined.
    """
    with uncollected():
        before, after = (load_all(side, note=note) for side in _sides(args))
        found = compare(before, after)
        if not show(args, found):
            return UNUSABLE
        code = _settled(args, after, found)
    return DIFFERS if not code and args.exit_code and found.differs else code


def _sides(args: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Return the reports of both sides. Raises ``ReportError``."""
    if args.before and args.after and not args.reports:
        return args.before, args.after
    if len(args.reports) == 2 and not args.before and not args.after:
        return [args.reports[0]], [args.reports[1]]
    raise ReportError(_BOTH)


def show(args: argparse.Namespace, found: Comparison) -> bool:
    """Print the comparison, or write the requested files; return False if one cannot be written."""
    written = []
    if args.json:
        written.append(write_report(args.json, comparison.document(found)))
    if args.markdown:
        written.append(write(args.markdown, text.render(found)))
    if args.html:
        written.append(write(args.html, page.render(found)))
    if not written:
        say_all(text.lines(found))
    return all(written)


def _settled(args: argparse.Namespace, after: list[RunReport], found: Comparison) -> int:
    """Write the baselines, or a patch of them, and the message that says why they changed."""
    if not args.update_baselines and not args.patch:
        return SAME
    checkout = find(Path.cwd(), args.graph_budget_dir)
    together = union(after)
    refuse(together, args.base_profile)
    offer = offered(args, checkout, together)
    note = commit.message(found, offer.moved)
    say()
    code = _patched(args, checkout, offer, note) if args.patch else settle(args, checkout, offer)
    if code or not offer.changes.files:
        return code
    if args.message and not args.dry_run:
        return SAME if write(args.message, note) else UNUSABLE
    if not args.patch:
        say(f"\nThe commit message:\n\n{note}")
    return SAME


def _patched(args: argparse.Namespace, checkout: Checkout, offer: Offer, note: str) -> int:
    """Write the patch, without changing the checkout."""
    much = show_changes(args, checkout, offer)
    files = offer.changes.files
    if not much or args.dry_run:
        return SAME
    if not write(args.patch, commit.patch(note, files, _names(checkout, files))):
        return UNUSABLE
    words = f"{args.patch} holds {much}: "
    say(TextLine(words, command=f"git apply {shlex.quote(args.patch)}"))
    return SAME


def _names(checkout: Checkout, files: Iterable[FileChange]) -> list[str]:
    """Return the paths of files relative to the repository, or to the checkout if there is none.

    Raises ``ReportError`` if baselines are outside of it.
    """
    try:
        prefix = git(checkout.root, "rev-parse", "--show-prefix").decode("utf-8", "surrogateescape")
    except GitError:
        prefix = ""
    try:
        paths = [file.path.relative_to(checkout.root).as_posix() for file in files]
    except ValueError:
        raise ReportError(
            f"--patch: {checkout.directory} is not below {checkout.root}, so no patch of the "
            "checkout can hold it; use --update-baselines"
        ) from None
    return [prefix.rstrip("\n") + path for path in paths]
