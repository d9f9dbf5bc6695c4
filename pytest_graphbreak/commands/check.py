"""``graphbreak check``: one verdict over the reports of all shards, profiles and retries."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pytest_graphbreak.baseline import BaselineError, Baselines, Stale, split_nodeid
from pytest_graphbreak.checkout import Checkout, CheckoutError, find
from pytest_graphbreak.commands.report import add_outputs, row, write_pages
from pytest_graphbreak.commands.talk import MOST, complain, listing, plural, say
from pytest_graphbreak.incoming import Report, ReportError, load_all, uncollected
from pytest_graphbreak.record import Plain
from pytest_graphbreak.rejudge import Judge, Judged
from pytest_graphbreak.report.view import ORDER, weight
from pytest_graphbreak.union import FAILED, Union, union

HELP = "one verdict over the reports of all shards"

OK, FAILS, UNUSABLE = 0, 1, 2
FULL: Final = 20
"""Failing tests that are shown with their reasons; the others on one line each."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("reports", nargs="+", metavar="REPORT.json")
    parser.add_argument(
        "--against",
        nargs="+",
        metavar="REPORT.json",
        help="reports of another run (main's), whose counts are the budget; a test that they "
        "do not have is judged by its baseline",
    )
    add_directory(parser)
    add_outputs(parser)


def add_directory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--graph-budget-dir",
        metavar="DIR",
        help="where baselines live (default: graph_budget_dir of the ini file, or baselines)",
    )


@dataclass(slots=True)
class Result:
    """What a check found. ``unusable`` says why reports cannot be judged."""

    judged: list[Judged] = field(default_factory=list)
    unmeasured: list[str] = field(default_factory=list)
    stale: list[Stale] = field(default_factory=list)
    unusable: list[str] = field(default_factory=list)
    strict: bool = False

    @property
    def failing(self) -> list[Judged]:
        failing = [item for item in self.judged if item.fails]
        return sorted(failing, key=lambda item: weight(item.test))

    @property
    def code(self) -> int:
        if self.unusable:
            return UNUSABLE
        return FAILS if self.failing or self.unmeasured or (self.strict and self.stale) else OK


def run(args: argparse.Namespace) -> int:
    """Judge and say so: 0 within budget, 1 not, 2 where the reports cannot be judged."""
    try:
        with uncollected():
            return _check(args)
    except (ReportError, CheckoutError) as error:
        complain(f"graphbreak check: {error}")
        return UNUSABLE


def _check(args: argparse.Namespace) -> int:
    checkout = find(Path.cwd(), args.graph_budget_dir)
    reports = load_all(args.reports)
    other = union(load_all(args.against, counts_only=True)) if args.against else None
    together = union(reports)
    result = check(together, checkout, other)
    _tell(result, together, reports)
    written = write_pages(_rewritten(reports, result), args)
    return result.code if written else UNUSABLE


def check(together: Union, checkout: Checkout, other: Union | None = None) -> Result:
    """Judge everything that was measured."""
    result = Result(strict=checkout.strict)
    result.unmeasured = [f"{nodeid}   on {profile}" for profile, nodeid in together.unmeasured]
    for name, part in (("", together), ("--against: ", other)):
        if part is not None:
            result.unusable += [f"{name}{item}" for item in unusable(part)]
    judge = Judge(checkout, None if other is None else other.seen)
    try:
        judge.baselines.check()
        result.stale = stale_entries(checkout, judge.baselines, together)
    except BaselineError as error:
        result.unusable.append(str(error))
        return result
    for seen in together.seen.values():
        try:
            judged = judge.judge(seen)
        except BaselineError as error:  # a node id that no test has
            result.unusable.append(f"{seen.report.name}: {error}")
            continue
        if judged is not None:
            result.judged.append(judged)
    return result


def unusable(together: Union) -> Iterator[str]:
    """Why these reports are no ground for a verdict."""
    yield from (f"contradiction: {item}" for item in together.contradictions)
    yield from (f"incomplete: {item}" for item in together.incomplete)


def stale_entries(checkout: Checkout, baselines: Baselines, together: Union) -> list[Stale]:
    """Entries whose test is gone, as far as the reports together can tell."""
    found: dict[str, Stale] = {}
    for profile in together.whole:
        for item in _stale_on(profile, checkout, baselines, together):
            found.setdefault(item.nodeid, item)
    return list(found.values())


def _stale_on(
    profile: str, checkout: Checkout, baselines: Baselines, together: Union
) -> Iterator[Stale]:
    """What the reports of one profile say is gone, and those of no other have."""
    root, whole = checkout.root, together.whole[profile]
    files = {file for scope in whole if _is_below(file := scope.partition("::")[0])}
    # A directory of which a file was collected whole and is here: this is the right checkout.
    known = {Path(file).parent for file in files & whole if os.path.isfile(root / file)}
    gone = {
        file
        for file in baselines.files()
        if Path(file).parent in known and not os.path.exists(root / file)
    }
    for item in baselines.stale(together.collected, files, gone, profile=profile):
        if item.file in whole or item.file in gone or f"{item.file}::{item.test}" in whole:
            yield item


def _is_below(file: str) -> bool:
    """Whether a report may name this test file: a path below the root, and no other."""
    try:
        split_nodeid(f"{file}::test")
    except BaselineError:
        return False
    return True


def _tell(result: Result, together: Union, reports: Sequence[Report]) -> None:
    # A test without a baseline has nothing that grew; a line says all.
    shown = [item for item in result.failing if item.verdict.name != "new"]
    for item in shown[:FULL]:
        say(f"{item.test['nodeid']}   on {item.seen.profile}")
        for line in (item.test["message"] or "").rstrip().split("\n"):
            say(f"  {line}".rstrip())
        say()
    for verdict in ORDER[:6]:
        tests = (item for item in result.judged if item.verdict.name == verdict)
        listing(verdict, (f"{row(item.test)}   on {item.seen.profile}" for item in tests))
    listing("unmeasured", result.unmeasured)
    listing("stale", (f"{item.place}  {item.nodeid}" for item in result.stale))
    by_themselves = sum(1 for seen in together.seen.values() if seen.level == FAILED)
    if by_themselves:
        say(f"{plural(by_themselves, 'test')} failed without the gate, and are not judged")
    if together.left_out:
        say(f"{plural(len(together.left_out), 'test')} collected, and run in none of these reports")
    if together.partial_files:
        say(
            f"{plural(len(together.partial_files), 'file')} collected in part only: "
            "no entry of theirs is judged stale"
        )
    for problem in result.unusable[:MOST]:
        complain(problem)
    if len(result.unusable) > MOST:
        complain(f"... and {len(result.unusable) - MOST:,} more")
    say(_totals(result, together, reports))


def _totals(result: Result, together: Union, reports: Sequence[Report]) -> str:
    counted = Counter(item.verdict.name for item in result.judged)
    parts = ", ".join(f"{counted[name]:,} {name}" for name in ORDER if counted[name])
    where = f"{', '.join(together.profiles) or 'no profile'} ({plural(len(reports), 'report')})"
    head = f"{plural(len(result.judged), 'test')} judged on {where}: {parts or 'none'}"
    if result.code == UNUSABLE:
        return f"{head}. No verdict: the reports cannot be judged."
    if result.code == OK:
        return f"{head}. Within the graph budget."
    accept = "" if not result.failing else " Accept what is meant: graphbreak accept REPORT.json..."
    return f"{head}. Over the graph budget.{accept}"


def _rewritten(reports: Sequence[Report], result: Result) -> list[Report]:
    """The reports with the verdicts of this check in place of those of their runs."""
    verdicts: dict[int, Plain] = {id(item.seen.test): item.test for item in result.judged}
    return [
        Report(
            report.name,
            report.environment,
            report.session | {"stale": [item.nodeid for item in result.stale]},
            [verdicts[id(test)] for test in report.tests if id(test) in verdicts],
        )
        for report in reports
    ]
