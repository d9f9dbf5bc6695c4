"""Judges one test of the session; what it is judged by is looked up only here.

``suite.phases`` calls ``judge`` when the window of a test has closed. Marker, baseline and versions
become a ``Case``; ``judging.judgement`` judges it, and ``report.failure`` adds the text. If the
budget names what nobody here can observe, such as a layer whose library is missing
(``measuring.absent``), that is an error of the record, and the verdict is ``error``.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from pytest_graphbreak.baseline import BaselineError, Entry, Expected
from pytest_graphbreak.config.packages import files_of, owners, version
from pytest_graphbreak.config.settings import Settings, in_ci
from pytest_graphbreak.config.typed import this_run
from pytest_graphbreak.judging.judgement import Case, Judgement, judgement
from pytest_graphbreak.judging.totals import unknown_runs
from pytest_graphbreak.measuring import absent
from pytest_graphbreak.model.budget import Cap
from pytest_graphbreak.model.items import Frame
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.versions import compilers
from pytest_graphbreak.report.checkout import CheckoutLines
from pytest_graphbreak.report.failure import Context, failure
from pytest_graphbreak.suite.gate import Gate
from pytest_graphbreak.suite.markers import GraphBudgetMark, canonical, is_xfail
from pytest_graphbreak.text.files import display_path

if TYPE_CHECKING:
    import pytest

_NO_REPORT: Final = "add --graph-budget-report=graphs.json, and keep graphs.json as an artifact"


def judge(
    gate: Gate,
    item: pytest.Item,
    record: Record,
    cap: Cap | None,
    mark: GraphBudgetMark,
    fixtures: Mapping[str, int],
) -> Judgement:
    """Return the judgement on ``item``. ``fixtures`` are the graphs of its fixtures, by layer."""
    settings, nodeid = gate.settings, canonical(item)
    entry = expected = None
    if settings.gate:
        try:
            entry = gate.baselines.entry(nodeid)
            expected = gate.baselines.expectation(nodeid, gate.profile)
        except BaselineError as error:  # a test outside of the rootdir cannot have a baseline
            if record.active:  # without graphs it needs none
                record = replace(record, errors=(*record.errors, str(error)))
    # An error already says that not all was seen.
    if not record.errors and (fault := _unseen(record, expected, cap, settings)):
        record = replace(record, errors=(fault,))
    case = Case(
        record,
        expected,
        cap,
        ungated=_reason_not_judged(mark, entry),
        excused=("new",) if is_xfail(item) else (),
        versions=_versions(record),
        packages=owners(files_of(record), settings.root) if expected and expected.packages else {},
    )
    judged = judgement(case, settings)
    return _explain(judged, gate, item, entry, fixtures) if judged.fails else judged


def _unseen(record: Record, expected: Expected | None, cap: Cap | None, settings: Settings) -> str:
    """Return why the budget of the test cannot be observed here; empty if it can."""
    fault = absent.cap_impossible(cap, record.layers) if cap is not None else ""
    if not fault and expected is not None:
        fault = absent.baseline_impossible(expected.values.graphs, record.layers)
    fault = fault or unknown_runs(record, cap, expected if settings.runs == "fail" else None)
    return f"{fault}, so it cannot be judged" if fault else ""


def _reason_not_judged(mark: GraphBudgetMark, entry: Entry | None) -> str | None:
    """Return why the test is not judged, or None if it is."""
    if not mark.gate:
        return mark.reason or "marked graph_budget(gate=False)"
    return entry.ungated if entry else None


def _explain(
    judged: Judgement,
    gate: Gate,
    item: pytest.Item,
    entry: Entry | None,
    fixtures: Mapping[str, int],
) -> Judgement:
    """Return the judgement on a failed test with its text."""
    settings, nodeid = gate.settings, canonical(item)
    file, line, name = item.location
    accept = settings.accept(this_run(), nodeid) if in_ci() else None
    context = Context(
        nodeid=nodeid,
        profile=gate.profile,
        baseline=display_path(entry.path, settings.root) if entry else None,
        baseline_line=entry.line if entry else None,
        accept=accept,
        not_accepted=_NO_REPORT if in_ci() and accept is None else "",
        typed=settings.typed,
        test=Frame(file, name, 0 if line is None else line + 1),
        replaces=_replaced(gate, nodeid) if entry is None else "",
        fixtures=fixtures,
        source=CheckoutLines(settings.root, str(item.path), entry.path if entry else None),
    )
    return replace(judged, lines=failure(judged, context))


def _replaced(gate: Gate, nodeid: str) -> str:
    """Return which entries an entry for this test would remove, in words; empty if none."""
    with suppress(BaselineError):  # then it is the error that is told
        if gate.settings.gate and gate.baselines.would_lose(nodeid):
            without = nodeid.endswith("]")
            return "its entry without parameters" if without else "its entries with parameters"
    return ""


def _versions(record: Record) -> dict[str, str]:
    """Return the versions of the compilers that made the graphs of a record."""
    versions = {name: version(name) for name in compilers(record.layers)}
    return {name: installed for name, installed in versions.items() if installed}
