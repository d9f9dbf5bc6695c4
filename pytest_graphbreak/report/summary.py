"""The header line and the terminal summary: a table of changes, and the next commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from pytest_graphbreak.config.checkout import is_missing
from pytest_graphbreak.config.device import runs_tt
from pytest_graphbreak.config.settings import Settings, in_ci
from pytest_graphbreak.config.typed import this_run
from pytest_graphbreak.judging.verdict import verdict_of
from pytest_graphbreak.model.differences import BY_VERDICT, VERDICTS
from pytest_graphbreak.model.report import RunEnvironment, TestReport
from pytest_graphbreak.report.footer import leaked_settings
from pytest_graphbreak.report.root_causes import (
    MOST_CHANGES,
    by_nodeid,
    passing_changes,
    passing_lines,
    root_causes,
)
from pytest_graphbreak.report.root_causes import lines as cause_lines
from pytest_graphbreak.report.unjudged import unjudged_lines
from pytest_graphbreak.report.view import (
    acceptable,
    count_standings,
    row,
    standing,
    tests_without_judgement,
)
from pytest_graphbreak.text.output import TextLine, label_line, list_lines, noun, plural

if TYPE_CHECKING:
    from pytest_graphbreak.baseline import Changes, Entry

MOST = 20
"""The number of lines of one kind; the rest are counted."""
LISTED = VERDICTS[: VERDICTS.index("ok")]
"""The verdicts that are listed by test, the most urgent first."""


class Outcome(Struct):
    """The results of a run, for the summary and the report."""

    profile: str
    settings: Settings
    environment: RunEnvironment = field(default_factory=RunEnvironment)
    tests: list[TestReport] = []
    unmeasured: list[str] = []
    complete_files: list[str] = []
    stale: list[Entry] = []
    changes: Changes | None = None
    faults: list[str] = []

    @property
    def final(self) -> list[TestReport]:
        """The tests whose verdict is final; those just recorded agree with their baseline now."""
        return [test for test in self.tests if not test.written]


def header(outcome: Outcome) -> str:
    """Return the header line of a run in which the plugin is active."""
    settings = outcome.settings
    modes = [name for name in ("update", "record", "prune") if getattr(settings, name)]
    mode = ", ".join(modes) or ("check" if settings.gate else "report only")
    try:
        shown = settings.directory.relative_to(settings.root)
    except ValueError:
        shown = settings.directory
    where = f", baselines in {shown}" if settings.gate else ""
    through = ", tt through xla" if settings.tt_log == "off" and runs_tt(settings.device) else ""
    backend = f", torch.compile takes {settings.backend[0]}" if settings.backend else ""
    return f"graph-budget: {mode}, profile {outcome.profile}{where}{through}{backend}"


def lines(outcome: Outcome) -> Iterator[TextLine]:
    """Yield the lines of the summary; none if there is nothing to report."""
    yield from cause_lines(root_causes(by_nodeid(outcome.final)))
    yield from _table(outcome)
    yield from passing_lines(passing_changes(by_nodeid(outcome.final)))
    yield from list_lines("unmeasured", outcome.unmeasured, MOST)
    stale = [f"{item.place}  {item.nodeid}" for item in outcome.stale]
    yield from list_lines("stale", stale, MOST)
    yield from _setups(outcome)
    yield from list_lines("settings", leaked_settings(outcome.tests), MOST)
    yield from _changes(outcome)
    for fault in outcome.faults:
        yield label_line("error", fault)
    yield from list_lines("note", _without_graphs(outcome), MOST)
    yield from _no_directory(outcome.settings)
    if not outcome.settings.gate and tests_without_judgement(outcome.tests):
        yield from unjudged_lines(outcome.tests)
    yield from _totals(outcome)
    yield from _next(outcome)


def _table(outcome: Outcome) -> Iterator[TextLine]:
    """Yield a line for each test with a verdict, but for those whose failures pytest prints."""
    tests = [test for test in outcome.final if test.failed_by != "gate"]
    for verdict in LISTED:
        rows = [row(test) for test in tests if test.verdict == verdict]
        yield from list_lines(verdict, rows, MOST)


def _no_directory(settings: Settings) -> Iterator[TextLine]:
    """Yield a line if the directory that somebody named for the baselines is not there."""
    if settings.gate and not settings.writes and is_missing(settings.root, settings.directory):
        yield label_line("error", f"{settings.directory} is not there, so no baseline was read")


def _setups(outcome: Outcome) -> Iterator[TextLine]:
    """Yield what fixtures compiled; it is not judged, since it is charged to no test."""
    lines = [
        f"{test.nodeid}   "
        + ", ".join(plural(count, f"{layer} graph") for layer, count in counts.items())
        + f" in {phase}, not judged"
        for test in outcome.tests
        for phase, counts in test.setup.phases.items()
    ]
    yield from list_lines("fixtures", lines, MOST)


def _without_graphs(outcome: Outcome) -> Iterator[str]:
    """Yield notes on passed tests that nothing judges, since nothing was compiled."""
    for test in outcome.final:
        note = test.record.note
        if note and standing(test) == "none" and test.outcome == "passed" and not test.ungated:
            yield f"{test.nodeid}  {note}"


def _changes(outcome: Outcome) -> Iterator[TextLine]:
    if outcome.changes is None:
        return
    yield from list_lines("recorded", map(str, outcome.changes.of_kind("added")), MOST)
    yield from list_lines("updated", map(str, outcome.changes.of_kind("changed")), MOST)
    yield from list_lines("pruned", map(str, outcome.changes.of_kind("pruned")), MOST)


def _totals(outcome: Outcome) -> Iterator[TextLine]:
    verdicts = count_standings(outcome.final)
    verdicts.pop("none", None)
    parts = [f"{count} {name}" for name, count in verdicts.items()]
    parts += [f"{count} {word}" for word, count in _count_unjudged(outcome).items()]
    if outcome.changes:
        written = {
            "recorded": outcome.changes.of_kind("added"),
            "updated": outcome.changes.of_kind("changed"),
        }
        parts += [f"{len(items)} {word}" for word, items in written.items() if items]
    unseen = sum(1 for test in outcome.tests if test.unseen)
    if unseen:
        parts.append(f"{unseen} with a cap or baseline on a layer that was not there")
    foreign = sum(1 for test in outcome.tests if test.foreign)
    if foreign:
        parts.append(
            f"{foreign} judged by another profile ({outcome.profile} was never recorded for them)"
        )
    if parts:
        number = len(outcome.tests)
        words = f"{number} {noun(number, 'test')} on {outcome.profile}: {', '.join(parts)}"
        yield TextLine(words, "title")


def _count_unjudged(outcome: Outcome) -> Counter[str]:
    """Count the tests that ``count_standings`` leaves out, by reason."""
    reasons = Counter[str]()
    for test in outcome.final:
        if standing(test) != "none" or test.ungated is not None:
            continue
        if test.failed_by == "test" or test.outcome in ("failed", "crashed"):
            reasons["failed without the gate"] += 1
        elif test.outcome in ("skipped", "xfailed"):
            reasons[test.outcome] += 1
        else:
            reasons["without graphs"] += 1
    return reasons


def _next(outcome: Outcome) -> Iterator[TextLine]:
    """Yield the next command, once."""
    settings = outcome.settings
    acceptable_tests = [test for test in outcome.final if BY_VERDICT[test.verdict].accepted]
    if not settings.gate or not acceptable_tests:
        return
    changes = passing_changes(by_nodeid(outcome.final))
    if len(changes) > MOST_CHANGES:
        yield label_line("next", "read all changes in the JSON report before you accept them")
        return
    if in_ci() and any(map(acceptable, acceptable_tests)):
        yield _accept_command(outcome)
    elif not settings.writes:
        yield from _write_commands(
            outcome, acceptable_tests, has_new=any(change.is_new for change in changes)
        )


def _write_commands(
    outcome: Outcome, tests: Sequence[TestReport], *, has_new: bool
) -> Iterator[TextLine]:
    """Yield the commands that write the baseline, or what else ends the verdicts of ``tests``."""
    verdicts = {test.verdict for test in tests}
    typed = outcome.settings.typed
    update, record = typed.rerun("--graph-budget-update"), typed.rerun("--graph-budget-record")
    red = [test for test in tests if BY_VERDICT[test.verdict].fails and test.verdict != "new"]
    failed = [verdict_of(test) for test in red]
    if (broken := next(filter(_can_be_fixed, red), None)) is not None:
        yield label_line("next", "try a fix: ", typed.on_test("fix", broken.nodeid))
        yield label_line("", "or make a script of it: ", typed.on_test("repro", broken.nodeid))
    if any(verdict.acceptable for verdict in failed):
        yield label_line("next", "fix the code, or accept: ", update)
    elif failed:
        limits = (
            "limits of the blocks" if any(test.block for test in red) else "caps of the markers"
        )
        yield label_line("next", f"fix the code, or raise the {limits}")
    if any(verdict.needs_prune for verdict in failed):
        yield label_line("", "(and --graph-budget-prune for what is not compiled any more)")
    if "new" in verdicts:
        yield label_line("next", "record what is missing: ", record)
    intended = "if what is new is intended, " if has_new else ""
    if "improved" in verdicts:
        yield label_line("next", f"{intended}tighten the baseline: ", update)
    elif "changed" in verdicts and not any(verdict.acceptable for verdict in failed):
        yield label_line("next", f"{intended}record what changed: ", update)


def _can_be_fixed(test: TestReport) -> bool:
    """Return whether a red test has a new break or recompile of Dynamo, which ``fix`` is for."""
    return test.verdict == "over" and any(
        change.layer == "dynamo" and change.kind in ("break", "recompile") and change.is_new
        for change in verdict_of(test).changes
    )


def _accept_command(outcome: Outcome) -> TextLine:
    """Return the command that accepts these counts after this machine is gone."""
    command = outcome.settings.accept(this_run())
    if command is None:
        words = "nothing here can be accepted: add --graph-budget-report=graphs.json, "
        return label_line("next", f"{words}and keep graphs.json as an artifact")
    return label_line("next", "accept intended changes, in a checkout: ", command)
