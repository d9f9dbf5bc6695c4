"""The judgement on a case, whoever asks: the gate, a block, a script, a report read again.

Input is a record with all that it is judged by (``Case``), and the ``Rules`` of the run: whether
the gate is on, which verdicts fail, and whether counts are recorded, updated or pruned. Output is
the ``Judgement``: the verdict, whether it fails, and its part of the report. The text for people is
added by who asked (``report.failure``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct, structs, to_builtins

from pytest_graphbreak.baseline.model import Expected
from pytest_graphbreak.config.checkout import Rules
from pytest_graphbreak.judging.verdict import Verdict, judge
from pytest_graphbreak.model.budget import Cap, Recorded
from pytest_graphbreak.model.differences import BY_CHANGE, STRICT
from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.report import Budget
from pytest_graphbreak.model.versions import COMPILERS, Versions
from pytest_graphbreak.text.output import TextLine, pack, plain_text


class Case(Struct, frozen=True):
    """A record, and everything that it is judged by.

    ``expected`` is the baseline for its profile, ``cap`` the cap in the code, ``ungated`` why it is
    not judged at all. ``excused`` are verdicts that do not fail it, whatever the rules say.
    ``versions`` of compilers and ``packages`` are those that made it.
    """

    record: Record
    expected: Expected | None = None
    cap: Cap | None = None
    ungated: str | None = None
    excused: Collection[str] = ()
    versions: Versions = {}
    packages: Mapping[str, str] = {}


class Judgement(Struct, frozen=True):
    """The verdict on a case. ``written`` says that its counts become those of the baseline.

    ``lines`` are the text for people if it ``fails``; who asked for the judgement adds them, by
    ``report.failure``.
    """

    case: Case
    verdict: Verdict
    written: bool = False
    fails: bool = True
    lines: Sequence[TextLine] = ()

    @property
    def message(self) -> str | None:
        """The lines as plain text."""
        return plain_text(self.lines) if self.fails else None

    @property
    def baseline(self) -> Recorded | None:
        """The baseline of the profile, as ``baseline`` of the report."""
        expected = self.case.expected
        if expected is None:
            return None
        versions: Plain = {name: expected.versions.get(name) for name in COMPILERS}
        return Recorded(**structs.asdict(expected.values), profile=expected.profile, **versions)

    @property
    def budget(self) -> Budget | None:
        """The smaller of baseline and marker, by layer, as ``budget`` of the report."""
        record, expected, cap = self.case.record, self.case.expected, self.case.cap
        if expected is None and cap is None:
            return None
        judged = () if expected is None else expected.judged_layers(record.layers)
        graphs: dict[str, int] = {}
        for layer in record.layers:
            limits = [] if cap is None else [cap.graphs(layer)]
            if expected is not None and layer in judged:
                limits.append(expected.values.graphs.get(layer, 0))
            if stated := [limit for limit in limits if limit is not None]:
                graphs[layer] = min(stated)
        return Budget(graphs)

    def to_dict(self) -> Plain:
        """Return the judgement for other processes, in the shape of the JSON report."""
        case, verdict = self.case, self.verdict
        return {
            "verdict": verdict.name,
            "baseline": to_builtins(self.baseline),
            "budget": to_builtins(self.budget),
            "cap": to_builtins(case.cap),
            "message": self.message,
            "lines": pack(self.lines),
            "ungated": case.ungated,
            "unseen": list(verdict.unseen),
            "foreign": verdict.foreign,
            "written": self.written,
            "changes": [change.to_dict() for change in verdict.changes],
        }


def judgement(case: Case, rules: Rules | None = None) -> Judgement:
    """Judge a case by the rules; without rules, by its cap alone."""
    rules = rules or Rules()
    verdict, written = _verdict(case, rules)
    return Judgement(case, verdict, written, fails=not written and _fails(case, rules, verdict))


def _fails(case: Case, rules: Rules, verdict: Verdict) -> bool:
    """Return whether this verdict fails the case, if its counts are not written."""
    is_red = verdict.fails or (rules.strict and verdict.name in STRICT)
    is_only_reported = verdict.name == "new" and rules.new == "report"
    # Without the gate the run only observes: a verdict is then that of the cap, if there is one.
    is_judged = rules.gate or case.cap is not None
    return is_red and is_judged and not is_only_reported and verdict.name not in case.excused


def _verdict(case: Case, rules: Rules) -> tuple[Verdict, bool]:
    """Return the verdict, and whether the counts are written."""
    verdict = judge(
        case.record,
        case.expected,
        case.cap,
        gate=rules.gate,
        versions=case.versions,
        packages=case.packages,
        ops=rules.ops,
        runs=rules.runs,
    )
    if case.ungated is not None:
        return structs.replace(verdict, name="none"), False
    if not _writes(case, rules, verdict):
        return verdict, False
    # A test that is written passes, unless it exceeds its cap; then nothing is written.
    capped = judge(case.record, None, case.cap, versions=case.versions)
    return (capped, False) if capped.fails else (verdict, True)


def _writes(case: Case, rules: Rules, verdict: Verdict) -> bool:
    """Return whether the end of the run will write the counts of this case to the baseline.

    ::

        no baseline: new, or ok by a cap alone     update, record
        compiled code is gone (``needs_prune``)    prune and update; if nothing grew, prune alone
        another change                             update
        error, none, or nothing changed            never
    """
    if verdict.name in ("new", "ok") and case.expected is None and case.record.has_judged_layer:
        return rules.update or rules.record
    if verdict.name not in BY_CHANGE:
        return False
    if verdict.needs_prune:
        # With a record a prune alone is not enough: a record changes no entry that is there.
        by_prune_alone = verdict.name == "lost" and not rules.record
        return rules.prune and (rules.update or by_prune_alone)
    return rules.update
