"""``graphbreak accept``: writes the counts of JSON reports to the baselines of the checkout.

The reports come from machines that the user does not have. The changes are shown first.
"""

from __future__ import annotations

import argparse
import fnmatch
import re
import sys
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pytest_graphbreak.artifacts.check import stale_entries
from pytest_graphbreak.artifacts.download import ARTIFACTS, download, github_run
from pytest_graphbreak.artifacts.incoming import ReportError, load_all
from pytest_graphbreak.artifacts.rejudge import Judge
from pytest_graphbreak.artifacts.union import BLIND, FAILED, MEASURED, NamedTest, Union, union
from pytest_graphbreak.baseline import (
    BaselineError,
    Baselines,
    Change,
    Changes,
    Entry,
    Measured,
    preview,
    refuse_file,
    split_nodeid,
    update,
)
from pytest_graphbreak.cli.changes import LEFT_OUT, LeftOut, change_lines, left_out_lines
from pytest_graphbreak.cli.check import add_directory
from pytest_graphbreak.cli.messages import note, say, say_all
from pytest_graphbreak.cli.report import REPORTS
from pytest_graphbreak.config.checkout import Checkout, find_checkout
from pytest_graphbreak.config.typed import this_command
from pytest_graphbreak.judging.measured import measurement
from pytest_graphbreak.model.report import RunReport
from pytest_graphbreak.text.errors import UserError
from pytest_graphbreak.text.files import display_path, without_collector
from pytest_graphbreak.text.numbers import plural
from pytest_graphbreak.text.output import TextLine, indent_lines

OK, DECLINED = 0, 1
"""The exit codes; DECLINED also if reports contradict each other."""
_Filter = Callable[[str], bool]
"""Whether the test of this node id is wanted."""
CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Control characters, and the line separators of Unicode."""


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


class Offer(Struct, frozen=True):
    """What reports change of a checkout's baselines: ``measured`` is written, ``gone`` dropped.

    ``gone`` are whole entries, with what all profiles have of a test.
    """

    together: Union
    measured: list[Measured]
    left_out: LeftOut
    gone: list[Entry]
    changes: Changes

    @property
    def changed_entries(self) -> list[Change]:
        return self.changes.of_kind("added", "changed", "pruned")

    @property
    def words(self) -> str:
        files = plural(len(self.changes.files), "file")
        return f"{plural(len(self.changed_entries), 'change')} in {files}"


def run(args: argparse.Namespace) -> int:
    """Accept reports.

    Returns 0 if written or nothing to write, 1 if a test was declined or its reports contradict
    each other, 2 if not usable.
    """
    checkout = find_checkout(Path.cwd(), args.graph_budget_dir)
    with without_collector():  # reports of many tests are read, kept and written
        together = union(_reports(args), runs=checkout.runs == "fail")
        _refuse(together, args.base_profile)
        _refuse_other_checkout(together, checkout)
        offer = _offer(args, checkout, together)
        code = _settle(args, checkout, offer)
    return DECLINED if offer.left_out["contradicted"] else code


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


def _offer(args: argparse.Namespace, checkout: Checkout, together: Union) -> Offer:
    """Return the changes that the reports make, without writing them. Raises ``BaselineError``."""
    baselines = Baselines(checkout.directory)
    is_wanted = pattern(args.tests, {seen.nodeid for seen in together.seen.values()})
    measured, left_out = _gather(together, baselines, is_wanted, args.base_profile)
    stale = stale_entries(checkout, baselines, together) if args.prune else ()
    gone = [entry for entry in stale if is_wanted(entry.nodeid)]
    changes = preview(checkout.directory, measured, prune=gone, base_profile=args.base_profile)
    return Offer(together, measured, left_out, gone, changes)


def _settle(args: argparse.Namespace, checkout: Checkout, offer: Offer) -> int:
    """Show the changes, ask, and write them. Returns 0, or 1 if declined.

    Raises ``UserError`` if there is no terminal to ask on.
    """
    if not args.review:
        say_all(change_lines(offer.changed_entries, checkout.root))
    say_all(left_out_lines(offer.together, offer.changes, offer.left_out, pruning=args.prune))
    if not offer.changes.files:
        say("Nothing to write: the baselines say this already.")
        return OK
    what = f"{offer.words} below {display_path(checkout.directory, Path.cwd())}"
    asked = len(offer.changed_entries)
    if args.dry_run:
        say(f"Would write {what}.")
        return OK
    if args.review:
        offer = _review(args, checkout, offer)
        what = offer.words
    elif not args.yes and not _is_confirmed(what):
        say("Nothing is written.")
        return DECLINED
    update(
        checkout.directory,
        offer.measured,
        prune=offer.gone,
        base_profile=args.base_profile,
        previewed=offer.changes,  # not planned again
    )
    say(f"Wrote {what}.")
    return DECLINED if len(offer.changed_entries) < asked else OK


def _review(args: argparse.Namespace, checkout: Checkout, offer: Offer) -> Offer:
    """Show each test as a red one, ask for it, and return the changes that were accepted.

    Raises ``UserError`` if there is no terminal to ask on.
    """
    if not sys.stdin.isatty():
        raise UserError("--review asks for each test, and there is no terminal to ask on")
    judge = Judge(replace(checkout, strict=True, new="fail"), typed=this_command())
    accepted = set[tuple[str, str]]()
    for number, change in enumerate(offer.changed_entries, 1):
        say(f"{change.nodeid}   on {change.profile}")
        say_all(indent_lines(_difference(judge, checkout, offer, change), 2))
        answer = _answer(f"Accept it ({number} of {len(offer.changed_entries)})? [y/n/q] ")
        if answer == "q":
            break
        if answer == "y":
            accepted.add((change.profile, change.nodeid))
        say()
    names = {nodeid for _, nodeid in accepted}  # an entry is gone on all profiles at once
    measured = [test for test in offer.measured if (test.profile, test.nodeid) in accepted]
    gone = [entry for entry in offer.gone if entry.nodeid in names]
    changes = preview(checkout.directory, measured, prune=gone, base_profile=args.base_profile)
    return replace(offer, measured=measured, gone=gone, changes=changes)


def _difference(
    judge: Judge, checkout: Checkout, offer: Offer, change: Change
) -> Iterable[TextLine]:
    """Return the text of a red test for a change; for what no test shows, the change itself."""
    seen = offer.together.seen.get(NamedTest(change.profile, change.nodeid))
    judged = None if seen is None or change.kind == "pruned" else judge.judge(seen)
    if judged is not None and judged.lines:
        return [line for line in judged.lines if line.kind != "command"]
    return change_lines([change], checkout.root)


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


def _refuse(together: Union, base_profile: str | None) -> None:
    """Raise ``ReportError`` if reports contain impossible test names, or no such profile."""
    if base_profile is not None and base_profile not in together.profiles:
        profiles = ", ".join(together.profiles)
        raise ReportError(f"--base-profile: no report is of {base_profile}; they are of {profiles}")
    for seen in together.seen.values():
        if seen.report.environment.profile is None:
            raise ReportError(f"{seen.report.name}: it names no profile, so it is of no test run")
        try:
            split_nodeid(seen.nodeid)
        except BaselineError as error:
            raise ReportError(f"{seen.report.name}: {error}") from None
        if CONTROL.search(seen.nodeid):
            raise ReportError(
                f"{seen.report.name}: {seen.nodeid!r} has control characters, which pytest "
                "never leaves in a node id"
            )


def _refuse_other_checkout(together: Union, checkout: Checkout) -> None:
    """Raise ``ReportError`` if tests were compared with baselines, and none are here at all.

    Raises ``BaselineError`` if a file is in their place.
    """
    refuse_file(checkout.directory)
    if checkout.directory.exists():
        return
    for seen in together.seen.values():
        if seen.test.baseline is not None:
            raise ReportError(
                f"{checkout.directory} is not there, and {seen.nodeid} was compared with a "
                f"baseline ({seen.report.name}): run this in the checkout that has the baselines, "
                "or name their directory with --graph-budget-dir"
            )


def pattern(text: str | None, nodeids: Collection[str] = ()) -> _Filter:
    """Return the filter of ``--tests``. Square brackets are literal, as node ids often have them.

    The whole id of a test in the reports (``nodeids``) selects only this test, so that the command
    which a failure prints does not include others.
    """
    if text is None:
        return lambda nodeid: True
    if text in nodeids:
        return lambda nodeid: nodeid == text
    if "*" not in text and "?" not in text:
        return lambda nodeid: text in nodeid
    expression = re.compile(fnmatch.translate(text.replace("[", "[[]")))
    return lambda nodeid: expression.match(nodeid) is not None


def _gather(
    together: Union, baselines: Baselines, is_wanted: _Filter, base_profile: str | None
) -> tuple[list[Measured], LeftOut]:
    """Return what every measured test gave, those of the base profile first, and what is left."""
    measured: list[Measured] = []
    left_out: LeftOut = {why: [] for why in LEFT_OUT}
    contradictions: dict[NamedTest, list[str]] = {}
    for item in together.contradictions:
        contradictions.setdefault(item.key, []).append(str(item))
    for seen in sorted(together.seen.values(), key=lambda seen: seen.profile != base_profile):
        if not is_wanted(seen.nodeid):
            continue
        record = seen.test.record
        if words := contradictions.get(seen.key):
            left_out["contradicted"] += words
        elif seen.level == BLIND:
            left_out["not seen"].append(f"{seen.nodeid}   {record.errors[0]}   on {seen.profile}")
        elif seen.level == FAILED:
            why = "xfailed" if seen.test.outcome == "xfailed" else "failed"
            left_out[why].append(seen.name)
        elif seen.level != MEASURED:
            left_out["not run"].append(seen.name)
        # A test that compiles nothing has no entry, unless it has one already.
        elif record.has_judged_layer or baselines.entry(seen.nodeid) is not None:
            environment = seen.report.environment
            measured.append(measurement(seen.nodeid, seen.profile, environment, record))
    return measured, left_out


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
