"""The header line and the terminal summary: a table of changes, and the next commands.

``suite.session`` fills an ``Outcome``, whose ``lines`` are the summary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from msgspec import Struct, field

from pytest_graphbreak.config.device import runs_tt
from pytest_graphbreak.config.settings import Settings, in_ci
from pytest_graphbreak.config.typed import this_run
from pytest_graphbreak.judging.finding import Finding
from pytest_graphbreak.judging.verdict import verdict_of
from pytest_graphbreak.model.differences import BY_VERDICT, VERDICTS
from pytest_graphbreak.model.report import RunEnvironment, TestReport
from pytest_graphbreak.model.versions import compilers, same_minor
from pytest_graphbreak.report.lines import setting_words
from pytest_graphbreak.report.root_causes import (
    by_nodeid,
    passing_changes,
    passing_lines,
    root_cause_lines,
    root_causes,
)
from pytest_graphbreak.report.standing import (
    REPORTED,
    acceptable,
    count_standings,
    is_excused,
    limits_in_code,
    row,
    standing,
    tests_without_judgement,
)
from pytest_graphbreak.report.unjudged import unjudged_lines
from pytest_graphbreak.text.files import display_path
from pytest_graphbreak.text.numbers import noun, plural
from pytest_graphbreak.text.output import TextLine, label_line, list_lines

if TYPE_CHECKING:
    from pytest_graphbreak.baseline import Changes, Entry

MOST = 20
"""The number of lines of one kind; the rest are counted."""
LISTED = VERDICTS[: VERDICTS.index("ok")]
"""The verdicts that are listed by test, the most urgent first."""
_REMOVE = "remove the entries of tests that are gone"


class Outcome(Struct):
    """The results of a run, for the summary and the report.

    ``Session`` makes it when it begins, and fills it when the last test has ended.
    """

    profile: str
    settings: Settings
    environment: RunEnvironment = field(default_factory=RunEnvironment)
    tests: list[TestReport] = []
    unmeasured: list[str] = []
    complete_files: list[str] = []
    is_cut_short: bool = False
    """Whether tests of the run did not come to their turn: after ``-x``, or a crash."""
    stale: list[Entry] = []
    changes: Changes | None = None
    faults: list[str] = []

    @property
    def final(self) -> list[TestReport]:
        """The tests whose verdict is final; those just recorded agree with their baseline now.

        What is said of verdicts is about these, what is said of set-ups, settings and crashes is
        about all ``tests``.
        """
        return [test for test in self.tests if not test.written]


def _is_written(test: TestReport) -> bool:
    """Return whether the run writes the counts of a test: it does not where the test fails."""
    return test.written and test.outcome in ("passed", "xpassed")


def header(outcome: Outcome) -> str:
    """Return the header line of a run in which the plugin is active."""
    settings = outcome.settings
    modes = [name for name in ("update", "record", "prune") if getattr(settings, name)]
    mode = ", ".join(modes) or ("check" if settings.gate else "report only")
    directory = display_path(settings.directory, settings.root)
    where = f", baselines in {directory}" if settings.gate else ""
    through = ", tt through xla" if settings.tt_log == "off" and runs_tt(settings.device) else ""
    backend = f", torch.compile takes {settings.backend[0]}" if settings.backend else ""
    return f"graph-budget: {mode}, profile {outcome.profile}{where}{through}{backend}"


def lines(outcome: Outcome) -> Iterator[TextLine]:
    """Yield the lines of the summary; none if there is nothing to report."""
    yield from root_cause_lines(root_causes(by_nodeid(outcome.final)))
    yield from _table(outcome)
    changes = passing_changes(by_nodeid(outcome.final))
    yield from passing_lines(changes)
    died = {test.nodeid for test in outcome.tests if test.outcome == "crashed"}
    unmeasured = (
        f"{name}   its process died in this test" if name in died else name
        for name in outcome.unmeasured
    )
    yield from list_lines("unmeasured", unmeasured, MOST)
    stale = [f"{item.place}  {item.nodeid}" for item in outcome.stale]
    yield from list_lines("stale", stale, MOST)
    yield from _setups(outcome)
    yield from list_lines("settings", leaked_settings(outcome.tests), MOST)
    yield from _changes(outcome)
    for fault in outcome.faults:
        yield label_line("error", fault)
    yield from list_lines("note", _without_graphs(outcome), MOST)
    yield from _outdated(outcome)
    if not outcome.settings.gate and tests_without_judgement(outcome.tests):
        yield from unjudged_lines(outcome.tests)
    yield from _totals(outcome)
    yield from _next(outcome, _condition(changes))


def _condition(changes: Sequence[Finding]) -> str:
    """Return the condition under which changes of tests that pass are to be accepted, if any.

    A break that is gone is a gain, a function that is compiled no more may be a loss.
    """
    if any(change.is_new for change in changes):
        return "if what is new is intended, "
    return "if what is gone is intended, " if any(change.is_entry for change in changes) else ""


def _table(outcome: Outcome) -> Iterator[TextLine]:
    """Yield a line for each test with a verdict, but for those whose failures pytest prints."""
    tests = [test for test in outcome.final if test.failed_by != "gate"]
    for verdict in LISTED:
        standings = ("new", REPORTED) if verdict == "new" else (verdict,)
        rows = [row(test) for test in tests if standing(test) in standings]
        yield from list_lines(verdict, rows, MOST)


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


def leaked_settings(tests: Iterable[TestReport]) -> list[str]:
    """Return the settings that calls of tests left, with the first test and how many others.

    Tests that left the same are on one line.
    """
    groups: dict[str, list[str]] = {}
    for test in tests:
        words = ", ".join(setting_words(name, value) for name, value in test.leaks.items())
        if words:
            groups.setdefault(words, []).append(test.nodeid)
    lines = []
    for words, (first, *others) in groups.items():
        also = f" and {plural(len(others), 'other')}" if others else ""
        lines.append(f"{first}{also}   left {words}")
    return lines


def _without_graphs(outcome: Outcome) -> Iterator[str]:
    """Yield notes on passed tests that nothing judges, since nothing was compiled."""
    for test in outcome.final:
        was_to_be_judged = test.outcome == "passed" and not test.ungated
        if test.record.note and was_to_be_judged and standing(test) == "none":
            yield f"{test.nodeid}  {test.record.note}"


def _outdated(outcome: Outcome) -> Iterator[TextLine]:
    """Yield how many entries another minor version of a compiler measured, and what renews them."""
    settings, now = outcome.settings, outcome.environment.versions
    command = settings.typed.rerun("--graph-budget-update")
    if in_ci():
        command = settings.accept(this_run()) or ""
    changes = outcome.changes.of_kind("changed") if outcome.changes else ()
    renewed = {change.nodeid for change in changes}
    compared = [test for test in outcome.final if settings.gate and test.nodeid not in renewed]
    counts = Counter(chain.from_iterable(_other_compilers(test, now) for test in compared))
    for versions, count in counts.items():
        entries = "1 entry" if count == 1 else f"{count:,} entries"
        words = f"{entries} measured with {versions}: reasons are not compared; renew: "
        yield label_line("note", words, command)


def _other_compilers(test: TestReport, now: Mapping[str, str | None]) -> Iterator[str]:
    """Yield ``torch 2.9`` if another minor version of torch than now measured a test's entry."""
    if test.baseline is None or test.foreign:
        return
    for name, was in test.baseline.versions.items():
        version = now.get(name) if name in compilers(test.record.layers) else None
        if version and not same_minor(was, version):
            yield f"{name} {was}"


def _changes(outcome: Outcome) -> Iterator[TextLine]:
    if outcome.changes is None:
        return
    yield from list_lines("recorded", map(str, outcome.changes.of_kind("added")), MOST)
    yield from list_lines("updated", map(str, outcome.changes.of_kind("changed")), MOST)
    pruned = [str(change) for change in outcome.changes.of_kind("pruned")]
    yield from list_lines("pruned", pruned, MOST)
    partial = {test.nodeid.partition("::")[0] for test in outcome.tests} - {*outcome.complete_files}
    if outcome.settings.prune and not outcome.changes.of_kind("changed", "pruned") and partial:
        words = (
            "no entry was removed: only a whole file shows what is gone, without -k, -m or an id"
        )
        yield label_line("note", words)


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
    elif unwritten := sum(map(_is_written, outcome.tests)):
        parts.append(f"{unwritten} not written")
    unseen = sum(1 for test in outcome.tests if test.unseen)
    if unseen:
        parts.append(f"{unseen} with a cap or baseline on a layer that was not there")
    foreign = sum(1 for test in outcome.tests if test.foreign)
    if foreign:
        words = f"judged by the values of another profile ({outcome.profile} has none for them)"
        parts.append(f"{foreign} {words}")
    if parts:
        number = len(outcome.tests)
        words = f"{number} {noun(number, 'test')} on {outcome.profile}: {', '.join(parts)}"
        yield TextLine(words, "title")


def _count_unjudged(outcome: Outcome) -> Counter[str]:
    """Count the tests that ``count_standings`` leaves out, by reason."""
    reasons = Counter[str]()
    for test in outcome.tests:
        is_counted = standing(test) != "none" or test.ungated is not None
        if _is_written(test) or (is_counted and not test.written):
            continue
        if test.failed_by == "test" or test.outcome in ("failed", "crashed"):
            reasons["failed without the gate"] += 1
        elif test.outcome in ("skipped", "xfailed", "xpassed"):
            reasons[test.outcome] += 1
        else:
            reasons["without graphs"] += 1
    return reasons


def _next(outcome: Outcome, condition: str) -> Iterator[TextLine]:
    """Yield the one command that comes next, if there is one."""
    settings = outcome.settings
    tests = [
        test
        for test in outcome.final
        if BY_VERDICT[test.verdict].accepted and standing(test) != "none" and not is_excused(test)
    ]
    if not settings.gate or not (tests or outcome.stale):
        return
    if not in_ci():
        yield _write_command(outcome, tests, condition)
    elif outcome.stale or any(map(acceptable, tests)):
        yield _accept_command(outcome, only_gone=not any(map(acceptable, tests)))


def _write_command(outcome: Outcome, tests: Sequence[TestReport], condition: str) -> TextLine:
    """Return the command that ends the verdicts of ``tests``, the most urgent in its words.

    ``acceptable`` of a verdict says whether an update of the baseline accepts any of it. What
    exceeds only limits in the code is no such case: then the code is the only thing to change, and
    the next run says what else there is, such as entries to prune.
    """
    verdicts = {test.verdict for test in tests}
    red = [test for test in tests if BY_VERDICT[test.verdict].fails and test.verdict != "new"]
    failed = [verdict_of(test) for test in red]
    if failed and not any(map(acceptable, red)):
        return label_line("next", f"fix the code, or raise the {limits_in_code(red)}")
    words, *flags = _update(verdicts, condition)
    if failed:
        limits = limits_in_code(red)
        raised = f"raise the {limits} and " if limits else ""
        also = " (of all tests, also of those that did not run)" if outcome.is_cut_short else ""
        words, flags = f"fix the code, or {raised}accept{also}: ", ["--graph-budget-update"]
    if outcome.stale or any(verdict.needs_prune for verdict in failed):
        flags.append("--graph-budget-prune")
    return label_line("next", words, outcome.settings.typed.rerun(*flags))


def _update(verdicts: Collection[str], condition: str) -> Sequence[str]:
    """Return the words of the next command of a green run and its option, for the verdicts in it.

    Without a verdict there are only entries to prune, which need no option but that one.
    """
    if not verdicts:
        return (f"{_REMOVE}: ",)
    if verdicts == {"new"}:
        return "record what is missing: ", "--graph-budget-record"
    if "improved" in verdicts:
        return f"{condition}tighten the baseline: ", "--graph-budget-update"
    return f"{condition}record what changed: ", "--graph-budget-update"


def _accept_command(outcome: Outcome, *, only_gone: bool) -> TextLine:
    """Return the command that accepts this run after its machine is gone.

    What is gone is so on any machine, so it needs no report.
    """
    command = outcome.settings.accept(this_run(), prune=bool(outcome.stale))
    if command is None and only_gone:
        command = outcome.settings.typed.rerun("--graph-budget-prune")
    if command is None:
        words = "nothing here can be accepted: add --graph-budget-report=graphs.json, "
        return label_line("next", f"{words}and keep graphs.json as an artifact")
    words = _REMOVE if only_gone else "accept intended changes"
    return label_line("next", f"{words}, in a checkout: ", command)
