"""``graphbreak check``: gives one verdict over the reports of all shards, profiles and retries.

``artifacts.union`` puts the reports together, ``artifacts.check`` judges what they have and returns
a ``CheckedUnion``. Here this is shown, in the order of what to look at first: why tests fail, each
cause once; the failing tests; what changed in tests that pass; what was not judged; the totals with
the next step. The same goes into the pages that options name (``cli.report.write_pages``). The
``standing`` of a test is its verdict as readers are told it (``report.standing``).
"""

from __future__ import annotations

import argparse
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from pytest_graphbreak.artifacts.check import CheckedUnion, check
from pytest_graphbreak.artifacts.incoming import load_all
from pytest_graphbreak.artifacts.rejudge import Judge
from pytest_graphbreak.artifacts.union import FAILED, Union, union
from pytest_graphbreak.cli.messages import MOST, UNUSABLE, complain, note, say, say_all, say_list
from pytest_graphbreak.cli.report import (
    REPORTS,
    accept_line,
    add_directory,
    add_outputs,
    run_of,
    write_pages,
)
from pytest_graphbreak.config.checkout import find_checkout
from pytest_graphbreak.config.typed import GitHubRun, Typed, this_command, this_run
from pytest_graphbreak.model.report import RunReport
from pytest_graphbreak.report.root_causes import (
    passing_changes,
    passing_lines,
    root_cause_lines,
    root_causes,
)
from pytest_graphbreak.report.runs import CheckNotes
from pytest_graphbreak.report.standing import (
    NAMED,
    REPORTED,
    acceptable,
    is_excused,
    limits_in_code,
    row,
    standing,
    standing_words,
)
from pytest_graphbreak.text.files import without_collector
from pytest_graphbreak.text.numbers import plural
from pytest_graphbreak.text.output import TextLine, indent_lines

OK, FAILS = 0, 1
"""The exit codes of a verdict; without one it is UNUSABLE."""
LONGEST: Final = 120
"""The length up to which report names are printed in a command; longer ones are described."""
FULL: Final = 20
"""The number of failing tests that are shown with their reasons; all are on one line each."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("reports", nargs="+", metavar="REPORT", help=REPORTS)
    parser.add_argument(
        "--against",
        nargs="+",
        metavar="REPORT",
        help="reports of another run (main's), whose counts are the budget; a test that they "
        "do not have is compared with its baseline",
    )
    parser.add_argument(
        "--allow-missing",
        action="store_true",
        help="pass although nothing was compared, or collected tests did not run anywhere",
    )
    parser.add_argument(
        "--complete",
        action="store_true",
        help="exit with 1 if a test of the baselines is in none of the reports",
    )
    add_directory(parser)
    add_outputs(parser)


@without_collector()
def run(args: argparse.Namespace) -> int:
    """Judge the reports. Returns 0 if within budget, 1 if not, 2 if they cannot be judged."""
    checkout = find_checkout(Path.cwd(), args.graph_budget_dir)
    if not checkout.directory.exists():
        note(f"{checkout.directory} is not there, so no baseline is read")
    made_by, runs = run_of(args) or this_run(), checkout.runs == "fail"
    earlier = union(load_all(args.against, note=note), runs=runs) if args.against else None
    reports = load_all(args.reports, note=note)
    together = union(reports, runs=runs)
    typed = this_command(baselines=args.graph_budget_dir)
    result = check(
        together,
        Judge(checkout, earlier, made_by, typed),
        allow_missing=args.allow_missing,
        complete=args.complete,
    )
    _show(result, together, reports, _accept(args.reports, made_by, typed, result))
    notes = CheckNotes(
        no_verdict=result.no_verdict,
        problems=tuple(result.unusable),
        missing=(
            *result.lost_shards,
            *result.missing,
            *(result.unreported if result.complete else ()),
        ),
        accept=accept_line(made_by, typed),
        by_run={judged.seen.key for judged in result.judged if judged.by_run},
    )
    written = write_pages(_replace_verdicts(reports, result), args, notes)
    return _exit_code(result) if written else UNUSABLE


def _exit_code(result: CheckedUnion) -> int:
    if result.no_verdict:
        return UNUSABLE
    return FAILS if result.failures or result.gaps else OK


def _accept(
    reports: Sequence[str], made_by: GitHubRun | None, typed: Typed, result: CheckedUnion
) -> str:
    """Return the command that accepts these reports, or a description if it is too long to read."""
    prune = bool(result.stale)
    if made_by is None and len(shlex.join(reports)) > LONGEST:
        return f"`graphbreak accept{' --prune' * prune}` with these reports"
    return typed.accept(*reports, run=made_by, prune=prune)


def _show(result: CheckedUnion, together: Union, reports: Sequence[RunReport], accept: str) -> None:
    # What follows from reports that cannot be judged is neither explained nor accepted.
    failures = [] if result.unusable else result.failures
    failing = {item.seen.name: item for item in failures}
    causes = root_causes((name, item.test) for name, item in failing.items())
    say_all(root_cause_lines(causes))
    # A test without a baseline has no growth to explain; one line is enough.
    shown = [name for name in causes.firsts if failing[name].verdict.name != "new"]
    for name in shown[:FULL]:
        say(name)
        say_all(indent_lines(failing[name].lines, 2))
        say()
    for verdict in NAMED:
        tests = (item for item in result.judged if standing(item.test) == verdict)
        say_list(verdict, (f"{row(item.test)}   on {item.seen.profile}" for item in tests))
    by_name = ((judged.seen.name, judged.test) for judged in result.judged)
    say_all(passing_lines(passing_changes(by_name)))
    say_list("unmeasured", result.unmeasured)
    say_list("stale", (f"{item.place}  {item.nodeid}" for item in result.stale))
    _show_left_out(result, together)
    for problem in result.unusable[:MOST]:
        complain(problem)
    if len(result.unusable) > MOST:
        complain(f"... and {len(result.unusable) - MOST:,} more")
    say(_totals(result, together, reports, accept))


def _show_left_out(result: CheckedUnion, together: Union) -> None:
    """Show what is not judged, and what is missing."""
    for outcome, count in _by_themselves(together).items():
        verb = "is" if count == 1 else "are"
        say(f"{plural(count, 'test')} {outcome} without the gate, and {verb} not judged")
    ungated = (item for item in result.judged if item.test.ungated is not None)
    say_list(
        "ungated",
        (
            f"{judged.seen.nodeid}   {judged.test.ungated}   on {judged.seen.profile}"
            for judged in ungated
        ),
    )
    say_list("missing", (f"{shard}: no report is of it" for shard in result.lost_shards), FULL)
    say_list("missing", result.missing, FULL)
    if result.complete:
        say_list("no report", result.unreported, FULL)
    elif result.unreported:
        say(f"{result.in_no_report} (--complete: exit 1, and their names)")
    if together.partial_files:
        say(
            f"{plural(len(together.partial_files), 'file')} collected in part only: "
            "no entry of theirs is judged stale"
        )


def _by_themselves(together: Union) -> Counter[str]:
    """Return the number of tests that failed without the gate, by ``xfailed`` and ``failed``."""
    failed = (seen.test for seen in together.seen.values() if seen.level == FAILED)
    outcomes = (test.outcome for test in failed if not test.block)
    return Counter("xfailed" if outcome == "xfailed" else "failed" for outcome in outcomes)


def _totals(
    result: CheckedUnion, together: Union, reports: Sequence[RunReport], accept: str
) -> TextLine:
    """Return the number of tests by verdict, and the next step."""
    tests = [judged.test for judged in result.judged]
    where = f"{', '.join(together.profiles) or 'no profile'} ({plural(len(reports), 'report')})"
    gated = sum(test.ungated is None for test in tests)
    head = f"{plural(gated, 'test')} judged on {where}: {standing_words(tests)}"
    if result.no_verdict:
        hint = " Is a report missing? If this is intended: --allow-missing."
        step = "" if result.unusable else hint
        return TextLine(f"{head}. No verdict: {result.no_verdict}.{step}", "verdict bad")
    gone = " Remove the entries of tests that are gone: " if result.stale else ""
    if _exit_code(result) == OK:
        step = " Record what is new: " if REPORTED in map(standing, tests) else gone
        words = f"{head}. Within the graph budget{_excused(result)}.{step}"
        return TextLine(words, "verdict good", command=accept if step else "")
    if not result.failures:
        words = f"{head}. Not passed: {', '.join(result.gaps)}.{gone}"
        return TextLine(words, "verdict bad", command=accept if gone else "")
    by_run = {judged.by_run for judged in result.failures if acceptable(judged.test)}
    accepts, advice = False in by_run, ""
    limits = limits_in_code(judged.test for judged in result.failures)
    if accepts:
        advice = f" Raise the {limits}, and accept: " if limits else " Accept intended changes: "
    elif limits:
        advice = f" Fix the code, or raise the {limits}."
    elif by_run:
        advice = " Intended changes pass once the reports of --against have them."
    words = f"{head}. {_why_red(result)}.{advice}"
    return TextLine(words, "verdict bad", command=accept if accepts else "")


def _excused(result: CheckedUnion) -> str:
    """Return what is beyond its budget in a result that passes: tests that are marked xfail."""
    count = sum(is_excused(judged.test) for judged in result.judged)
    return f", but for {plural(count, 'test')} marked xfail" if count else ""


def _why_red(result: CheckedUnion) -> str:
    """Return why the result is not green: tests that could not be measured are over no budget."""
    if any(judged.verdict.name != "error" for judged in result.failures):
        return "Over the graph budget"
    count = len(result.failures) + len(result.unmeasured)
    if count:
        return f"{plural(count, 'test')} not measured"
    return f"{len(result.stale)} stale"


def _replace_verdicts(reports: Sequence[RunReport], result: CheckedUnion) -> list[RunReport]:
    """Return the reports with the verdicts of this check in place of those of their runs."""
    # By identity, since several reports may have a test of this name, and one of them was judged.
    verdicts = {id(judged.seen.test): judged.test for judged in result.judged}
    stale = tuple(entry.nodeid for entry in result.stale)
    return [
        replace(
            report,
            session=replace(report.session, stale=stale),
            tests=tuple(verdicts[id(test)] for test in report.tests if id(test) in verdicts),
        )
        for report in reports
    ]
