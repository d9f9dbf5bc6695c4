"""Judges the tests of reports again: against the baselines of a checkout, or against another run.

What comes out is a test as the report holds it, with the verdict, the budget
and the text of this judgement in place of those of the run.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_graphbreak.baseline import Baselines, Entry, Expected
from pytest_graphbreak.baseline.model import minor
from pytest_graphbreak.config.checkout import Checkout
from pytest_graphbreak.config.packages import files_of, owner
from pytest_graphbreak.judging import budget
from pytest_graphbreak.judging.cap import Cap
from pytest_graphbreak.judging.recorded import values
from pytest_graphbreak.judging.verdict import STRICT, Verdict, judge
from pytest_graphbreak.model.record import Plain, Record
from pytest_graphbreak.report.context import Context
from pytest_graphbreak.report.text import failure
from pytest_graphbreak.runs import accepting
from pytest_graphbreak.runs.accepting import Run
from pytest_graphbreak.runs.loosened import Source
from pytest_graphbreak.runs.union import BLIND, MEASURED, Seen


@dataclass(frozen=True, slots=True)
class Judged:
    """One test with its new verdict. ``test`` is the entry of a report that says so."""

    seen: Seen
    verdict: Verdict
    test: Plain
    fails: bool


class Judge:
    """Holds what tests are judged by. One for each command.

    With ``against``, the tests of another run by profile and node id, its
    counts are the budget; a test that it did not measure is judged by its
    baseline. ``run`` is the run of GitHub Actions that made the reports, if one is
    known. ``disbelieved`` are the tests that a report calls ungated and that
    nothing in the checkout takes out of the gate: they are judged.
    """

    def __init__(
        self,
        checkout: Checkout,
        against: Mapping[tuple[str, str], Seen] | None = None,
        run: Run | None = None,
    ) -> None:
        self.checkout = checkout
        self.run = run
        self.baselines = Baselines(checkout.directory)
        self.disbelieved: list[Seen] = []
        self._source = Source(checkout.root)
        self._against = against or {}

    def judge(self, seen: Seen) -> Judged | None:
        """The verdict on one test; None where it was skipped or failed by itself.

        Raises ``BaselineError`` for a baseline that cannot be read and for a
        node id that can have none.
        """
        if seen.level < BLIND:
            return None
        record = Record.from_dict(seen.test)
        entry = self.baselines.entry(seen.nodeid)
        other = self._against.get((seen.profile, seen.nodeid))
        expected: Expected | None
        if other is not None and other.level == MEASURED:
            expected, record = _budget_of(other, record)
            context = self._context(seen, expected, other.report.name, None)
        else:
            expected = entry.expected(seen.profile) if entry is not None else None
            context = self._context(seen, expected, self._shown(entry), entry)
        cap = _cap(seen.test)
        verdict = judge(
            record,
            expected,
            cap,
            gate=True,
            torch=seen.report.torch,
            packages=_packages(seen),
            ops=self.checkout.ops,
        )
        ungated = self._ungated(seen, entry)
        if ungated is not None:
            verdict = replace(verdict, name="none")
        # The gate fails a test inside its call, so an xfail mark takes that failure, too.
        passes = seen.test["outcome"] in ("xfailed", "xpassed") or (
            verdict.name == "new" and self.checkout.new == "report"
        )
        fails = not passes and (verdict.fails or (self.checkout.strict and verdict.name in STRICT))
        test = seen.test | {
            "verdict": verdict.name,
            "failed_by": "gate" if fails else None,
            "outcome": "failed" if fails else _outcome(seen.test),
            "baseline": budget.baseline(expected),
            "budget": budget.budget(record, expected, cap),
            "ungated": ungated,
            "foreign": verdict.foreign,
            "message": failure(verdict, record, context) if fails else None,
        }
        return Judged(seen, verdict, test, fails)

    def _ungated(self, seen: Seen, entry: Entry | None) -> str | None:
        """Why the test is not judged: by its baseline now, or by its marker, as the run told."""
        if entry is not None and entry.ungated is not None:
            return entry.ungated
        reason: str | None = seen.test["ungated"]
        if reason is not None and not self._source.may_ungate(seen.nodeid):
            self.disbelieved.append(seen)
            return None
        return reason

    def _context(
        self, seen: Seen, expected: Expected | None, shown: str | None, entry: Entry | None
    ) -> Context:
        report = seen.report
        return Context(
            nodeid=seen.nodeid,
            profile=seen.profile,
            torch=seen.report.torch,
            baseline=shown,
            baseline_line=entry.line if entry is not None else None,
            recorded_profile=expected.profile if expected is not None else None,
            recorded_torch=expected.torch if expected is not None else None,
            packages=_packages(seen),
            recorded_packages=expected.packages if expected is not None else {},
            accept=accepting.command(
                shlex.quote(report.given or report.name), seen.nodeid, self.run
            ),
        )

    def _shown(self, entry: Entry | None) -> str | None:
        return None if entry is None else shown(entry.path, self.checkout.root)


def _packages(seen: Seen) -> dict[str, str]:
    """The versions of the packages that own places of a test."""
    found = seen.report.environment["packages"]
    names = dict.fromkeys(map(owner, files_of(seen.test)))
    return {name: found[name] for name in names if name in found}


def _outcome(test: Plain) -> str:
    """The outcome of a test that is within its budget now: what the gate failed then passed."""
    outcome: str = test["outcome"]
    return "passed" if outcome == "failed" and test["failed_by"] == "gate" else outcome


def shown(path: Path, root: Path) -> str:
    """A path as a reader of this checkout would type it."""
    try:
        return str(path.relative_to(root))
    except ValueError:
        return str(path)


def _budget_of(other: Seen, record: Record) -> tuple[Expected, Record]:
    """Another run's counts as a budget, and the record on the layers that it can judge.

    A layer that the other run did not observe says nothing, neither 0 nor less.
    A layer on which it had graphs is judged also where it is missing here.
    """
    measured = values(Record.from_dict(other.test))
    torch = minor(other.report.torch)
    expected = Expected(
        values=measured,
        profile=other.profile,
        torch=torch,
        recorded=True,
        own=measured.layers,
        breaks_torch=torch,
        eager_torch=torch,
        ops_torch=dict.fromkeys(measured.ops, torch),
        packages=other.report.environment["packages"],
    )
    layers = tuple(layer for layer in record.layers if layer in other.test["layers"])
    if layers == record.layers:
        return expected, record
    return expected, replace(
        record,
        layers=layers,
        graphs={layer: count for layer, count in record.graphs.items() if layer in layers},
        recompiles={layer: count for layer, count in record.recompiles.items() if layer in layers},
    )


def _cap(test: Plain) -> Cap | None:
    """The marker's cap, as far as the report tells it."""
    if test["cap"] is not None:
        return Cap(**test["cap"])
    if test["budget"] is None:
        return None
    # The budget is the smaller of marker and baseline: what is below the baseline is a marker's.
    allowed = (test["baseline"] or {}).get("graphs")
    layers = {
        layer: count
        for layer, count in test["budget"]["graphs"].items()
        if allowed is None or count < allowed.get(layer, 0)
    }
    return Cap(layers=layers) if layers else None
