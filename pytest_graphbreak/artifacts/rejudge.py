"""Judges the tests of reports again, with the baselines of a checkout or with another run.

The result is a test as in the report, with the verdict, the budget and the text of this judgement
in place of those of the run. ``graphbreak check`` makes one ``Judge`` and asks it for each test;
``graphbreak compare`` takes only ``budget_of`` from here.

A run's test comes as a ``SeenTest`` of a ``Union``: of all reports together, each test is taken
from the one that saw most of it (``artifacts.union``). It becomes a ``Case``, which is judged as in
the run itself (``judging.judgement``). What it is compared with is the ``source``:

- another run, if that measured it to its end: ``budget_of`` makes its counts a budget,
- else its entry in the baselines of the checkout,
- else nothing: the test is new.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from pytest_graphbreak.artifacts.union import BLIND, MEASURED, SeenTest, Union
from pytest_graphbreak.baseline import Baselines, Entry, Expected
from pytest_graphbreak.baseline.rules import expectation
from pytest_graphbreak.config.checkout import Checkout
from pytest_graphbreak.config.typed import GitHubRun, Typed, this_command
from pytest_graphbreak.judging.judgement import Case, Judgement, judgement
from pytest_graphbreak.judging.measured import owner_versions, values
from pytest_graphbreak.judging.verdict import Verdict, verdict_of
from pytest_graphbreak.model.differences import FAILING, STRICT
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.report import TestReport
from pytest_graphbreak.model.versions import minors
from pytest_graphbreak.report.failure import Context, failure
from pytest_graphbreak.text.files import display_path
from pytest_graphbreak.text.output import TextLine


class Judged(Struct, frozen=True):
    """One test with its new verdict. ``test`` is its entry in a report, ``seen`` what a run saw.

    ``by_run``: another run was its budget, so that an update of the baselines changes nothing.
    """

    seen: SeenTest
    verdict: Verdict
    test: TestReport
    lines: Sequence[TextLine]
    by_run: bool = False

    @property
    def fails(self) -> bool:
        return self.test.failed_by == "gate"


class Judge:
    """Everything that tests are judged by. There is one for each command.

    With ``against``, another run, its counts are the budget; a test that it did not measure is
    judged by its baseline. ``run`` is the run of GitHub Actions that made the reports, if known,
    ``typed`` how the command was started.
    """

    def __init__(
        self,
        checkout: Checkout,
        against: Union | None = None,
        run: GitHubRun | None = None,
        typed: Typed | None = None,
    ) -> None:
        self.checkout = checkout
        self.run = run
        self.typed = typed or this_command()
        self.baselines = Baselines(checkout.directory)
        self.against = against

    def judge(self, seen: SeenTest) -> Judged | None:
        """Return the verdict on one test, or None if it was skipped or failed by itself.

        Raises ``BaselineError`` for a baseline that cannot be read and for a node id that cannot
        have one.
        """
        if seen.test.block:
            return _judge_block(seen)
        if seen.level < BLIND:  # skipped, crashed or failed by itself: not measured to its end
            return None
        entry = self.baselines.entry(seen.nodeid)
        earlier, record = self.earlier(seen), seen.test.record
        if earlier is not None:
            source: SeenTest | Entry | None = earlier
            budget: Expected | None
            budget, record = budget_of(earlier, record)
        else:
            source = entry
            budget = None if entry is None else expectation(entry, seen.profile)
        case = Case(
            record,
            budget,
            seen.test.cap,
            ungated=_reason_not_gated(seen, entry),
            # The gate fails a test inside its call, so an xfail mark covers that failure as well.
            excused=(*FAILING, *STRICT) if seen.test.outcome in ("xfailed", "xpassed") else (),
            versions=seen.report.versions,
            packages=owner_versions(seen.test.record, seen.report.environment.packages),
        )
        judged = judgement(case, self.checkout)
        if judged.fails:
            judged = replace(judged, lines=failure(judged, self._context(seen, source)))
        test = _judged_test(seen.test, judged)
        return Judged(seen, judged.verdict, test, judged.lines, by_run=earlier is not None)

    def earlier(self, seen: SeenTest) -> SeenTest | None:
        """Return the test in the other run, if that measured it to its end."""
        others = self.against.seen if self.against is not None else {}
        earlier = others.get(seen.key)
        return earlier if earlier is not None and earlier.level == MEASURED else None

    def _context(self, seen: SeenTest, source: SeenTest | Entry | None) -> Context:
        """Return what the text of a failure contains; ``source`` is what it was judged by."""
        report = seen.report.path or seen.report.name
        baseline, line, against = None, None, None
        if isinstance(source, Entry):
            baseline, line = display_path(source.path, self.checkout.root), source.line
        elif source is not None:
            against = source.report.name
        return Context(
            nodeid=seen.nodeid,
            profile=seen.profile,
            baseline=baseline,
            baseline_line=line,
            against=against,
            accept=self.typed.accept(report, nodeid=seen.nodeid, run=self.run),
            typed=self.typed,
        )


def _judge_block(seen: SeenTest) -> Judged:
    """Return the judgement of the run: the limits of a block stand in the test, in no baseline."""
    first, *others = (seen.test.message or "graph budget").split("\n")
    lines = [TextLine(first, "headline"), *(TextLine(line, whole=True) for line in others)]
    return Judged(seen, verdict_of(seen.test), seen.test, lines)


def _reason_not_gated(seen: SeenTest, entry: Entry | None) -> str | None:
    """Return why the test is not judged: its current baseline, or its marker in the run."""
    if entry is not None and entry.ungated is not None:
        return entry.ungated
    return seen.test.ungated


def _judged_test(test: TestReport, judged: Judgement) -> TestReport:
    """Return a test as in the report, with this judgement in place of that of the run."""
    return replace(
        test,
        outcome="failed" if judged.fails else _outcome(test),
        failed_by="gate" if judged.fails else None,
        verdict=judged.verdict.name,
        baseline=judged.baseline,
        budget=judged.budget,
        ungated=judged.case.ungated,
        message=judged.message,
        foreign=judged.verdict.foreign,
        unseen=judged.verdict.unseen,
        changes=judged.verdict.changes,
    )


def _outcome(test: TestReport) -> str:
    """Return the outcome of a test within its budget; one that only the gate failed has passed."""
    was_ours = test.outcome == "failed" and test.failed_by == "gate"
    return "passed" if was_ours else test.outcome


def budget_of(earlier: SeenTest, record: Record) -> tuple[Expected, Record]:
    """Return another run's counts as a budget, and the record on the layers it can judge.

    A layer that the other run did not observe is not judged. A layer on which it had graphs is
    judged even if it is missing here.
    """
    measured = values(earlier.test.record)
    versions = minors(earlier.report.versions, earlier.report.versions)
    expected = Expected(
        values=measured,
        profile=earlier.profile,
        versions=versions,
        recorded=True,
        own=measured.layers,
        packages=earlier.report.environment.packages,
        plain_with=versions,
    )
    layers = tuple(layer for layer in record.layers if layer in earlier.test.record.layers)
    if layers == record.layers:
        return expected, record
    return expected, replace(
        record,
        layers=layers,
        graphs={layer: count for layer, count in record.graphs.items() if layer in layers},
        recompiles={layer: count for layer, count in record.recompiles.items() if layer in layers},
    )
