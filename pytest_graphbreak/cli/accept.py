"""``graphbreak accept``: writes the counts of JSON reports to the baselines of the checkout.

The reports come from machines that the user does not have. The changes (``artifacts.offer``) are
shown first, and the user is asked, for all of them or with ``--review`` for each test.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from pytest_graphbreak.artifacts.check import stale_entries
from pytest_graphbreak.artifacts.download import ARTIFACTS, download, github_run
from pytest_graphbreak.artifacts.incoming import ReportError, load_all
from pytest_graphbreak.artifacts.offer import (
    Offer,
    change_lines,
    make_offer,
    refuse_unfit,
    summary_lines,
)
from pytest_graphbreak.artifacts.rejudge import Judge
from pytest_graphbreak.artifacts.union import NamedTest, union
from pytest_graphbreak.baseline import Baselines, Change
from pytest_graphbreak.cli.messages import note, say, say_all
from pytest_graphbreak.cli.report import REPORTS, add_directory, filter_of_tests
from pytest_graphbreak.config.checkout import Checkout, find_checkout
from pytest_graphbreak.config.typed import this_command
from pytest_graphbreak.model.report import RunReport
from pytest_graphbreak.text.errors import UserError
from pytest_graphbreak.text.files import display_path, without_collector
from pytest_graphbreak.text.output import TextLine, indent_lines

OK, DECLINED = 0, 1
"""The exit codes; DECLINED also if reports contradict each other."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("reports", nargs="*", metavar="REPORT", help=REPORTS)
    parser.add_argument(
        "--run",
        metavar="ID",
        help="take the reports of this run of GitHub Actions (its number, or the address of its "
        "page), through gh",
    )
    parser.add_argument(
        "--repo", metavar="OWNER/NAME", help="the repository of the run (default: gh's)"
    )
    parser.add_argument(
        "--artifact",
        metavar="PATTERN",
        default=ARTIFACTS,
        help="the artifacts of the run that contain reports (default: %(default)s)",
    )
    _add_writing(parser)


def _add_writing(parser: argparse.ArgumentParser) -> None:
    """Add the options for what is written, and whether the user is asked before."""
    asked = parser.add_mutually_exclusive_group()
    asked.add_argument("--yes", action="store_true", help="write without asking")
    asked.add_argument("--review", action="store_true", help="ask for each test")
    parser.add_argument("--dry-run", action="store_true", help="show the changes, and stop")
    parser.add_argument(
        "--tests",
        metavar="PATTERN",
        help="only the test with this id; or else tests whose id contains this text, or matches "
        "it if it has a * or a ?",
    )
    parser.add_argument(
        "--prune",
        action="store_true",
        help="drop entries of tests that no longer exist, in files that the reports ran completely",
    )
    parser.add_argument(
        "--base-profile",
        metavar="NAME",
        help="the profile of the plain counts in a new baseline file (default: the first report's)",
    )
    add_directory(parser)


def run(args: argparse.Namespace) -> int:
    """Accept reports.

    Returns 0 if written or nothing to write, 1 if a test was declined or its reports contradict
    each other, 2 if not usable.
    """
    checkout = find_checkout(Path.cwd(), args.graph_budget_dir)
    with without_collector():  # reports of many tests are read, kept and written
        together = union(_reports(args), runs=checkout.runs == "fail")
        refuse_unfit(together, checkout, args.base_profile)
        baselines = Baselines(checkout.directory)
        stale = stale_entries(checkout, baselines, together) if args.prune else []
        nodeids = {nodeid for _, nodeid in together.seen}
        is_wanted = filter_of_tests(args.tests, nodeids, [entry.nodeid for entry in stale])
        gone = [entry for entry in stale if is_wanted(entry.nodeid)]
        offer = make_offer(
            together, baselines, is_wanted, base_profile=args.base_profile, gone=gone
        )
        code = _settle(args, checkout, offer)
    return DECLINED if offer.left_out.contradicted else code


def _reports(args: argparse.Namespace) -> list[RunReport]:
    """Return the named reports, or those of a CI run. Raises ``ReportError``."""
    has_run, has_reports = args.run is not None, bool(args.reports)
    if has_run == has_reports:  # both, or neither
        raise ReportError("name the reports, or the run that made them with --run ID")
    if args.run is None:
        return load_all(args.reports, note=note)
    run = github_run(args.run, args.repo)
    with download(run, args.artifact) as directory:
        return load_all([directory], shown=f"run {run.number}", note=note)


def _settle(args: argparse.Namespace, checkout: Checkout, offer: Offer) -> int:
    """Show the changes, ask, and write them. Returns 0, or 1 if any was declined.

    Raises ``UserError`` if there is no terminal to ask on.
    """
    if not args.review:
        say_all(change_lines(offer.changed_entries, checkout.root))
    say_all(summary_lines(offer, pruning=args.prune))
    if not offer.changes.files:
        say(f"Nothing to write: {offer.why_nothing}.")
        return OK
    what = f"{offer.words} below {display_path(checkout.directory, Path.cwd())}"
    if args.dry_run:
        say(f"Would write {what}.")
        return OK
    if args.review:
        accepted = offer.part(_review(checkout, offer))
        accepted.write()
        say(f"Wrote {accepted.words}.")
        return DECLINED if len(accepted.changed_entries) < len(offer.changed_entries) else OK
    if not args.yes and not _is_confirmed(what):
        say("Nothing is written.")
        return DECLINED
    offer.write()
    say(f"Wrote {what}.")
    return OK


def _review(checkout: Checkout, offer: Offer) -> set[NamedTest]:
    """Show each test as a red one, ask for it, and return those whose changes were accepted.

    Raises ``UserError`` if there is no terminal to ask on.
    """
    if not sys.stdin.isatty():
        raise UserError("--review asks for each test, and there is no terminal to ask on")
    judge = Judge(replace(checkout, strict=True, new="fail"), typed=this_command())
    accepted = set[NamedTest]()
    for number, change in enumerate(offer.changed_entries, 1):
        say(f"{change.nodeid}   on {change.profile}")
        say_all(indent_lines(_difference(judge, offer, change), 2))
        answer = _answer(f"Accept it ({number} of {len(offer.changed_entries)})? [y/n/q] ")
        if answer == "q":
            break
        if answer == "y":
            accepted.add(NamedTest(change.profile, change.nodeid))
        say()
    return accepted


def _difference(judge: Judge, offer: Offer, change: Change) -> Iterable[TextLine]:
    """Return the text of a red test for a change; for what no test shows, the change itself."""
    seen = offer.together.seen.get(NamedTest(change.profile, change.nodeid))
    judged = None if seen is None or change.kind == "pruned" else judge.judge(seen)
    if judged is not None and judged.lines:
        return [line for line in judged.lines if line.kind != "command"]
    return change_lines([change], judge.checkout.root)


def _answer(question: str) -> str:
    """Ask until the answer is ``y``, ``n`` or ``q``; the end of the input is ``q``."""
    while True:
        try:
            answer = input(question).strip().lower()
        except EOFError:
            say()  # no line end was typed
            return "q"
        if answer[:1] in ("y", "n", "q"):
            return answer[0]


def _is_confirmed(what: str) -> bool:
    """Ask whether to write. Raises ``UserError`` if there is no terminal to ask on."""
    if not sys.stdin.isatty():
        raise UserError(
            f"would write {what}, and there is no terminal to ask "
            "on. Nothing is written; --yes writes without asking."
        )
    try:
        return input(f"Write {what}? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
