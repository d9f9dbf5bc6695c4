"""What happens around one test, in the process that runs it: measure, judge, fail.

The outcome travels as one plain dict on the test's report, so that it survives
xdist and ``--forked``; the controller (``session``) collects it.
"""

from __future__ import annotations

import importlib
import re
import shlex
import sys
from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_graphbreak.config.settings import Settings, in_ci
from pytest_graphbreak.judging import budget
from pytest_graphbreak.judging import cap as caps
from pytest_graphbreak.model.record import Frame, Plain, Record

if TYPE_CHECKING:
    from pytest_graphbreak.baseline import Baselines, Entry, Expected
    from pytest_graphbreak.config.device import Device
    from pytest_graphbreak.config.typed import Typed
    from pytest_graphbreak.judging.verdict import Verdict
    from pytest_graphbreak.report.context import Context
    from pytest_graphbreak.suite.trace import Trace
    from pytest_graphbreak.suite.window import TestWindow
    from pytest_graphbreak.watching.measure import Measurement

GATE = pytest.StashKey["Gate"]()
ENTRY = pytest.StashKey[Plain]()
RUNNING = pytest.StashKey[bool]()
TRACE = pytest.StashKey["Trace"]()
_COLOUR: Final = re.compile(r"\x1b\[[\d;]*m")
_EMPTY_TRACE: Final = re.compile(r"DEBUG +torch\.__trace:\S+:\d+ *$")
FAILED_SUBTEST = pytest.StashKey[bool]()


class GraphBudgetFailure(pytest.fail.Exception):  # type: ignore[misc, name-defined]
    """The gate failed a test; never a failure of the test's own."""


@dataclass(frozen=True, slots=True)
class Way:
    """What ``@pytest.mark.graph_budget`` says of a test: judged or not, isolated or not."""

    gate: bool = True
    isolate: bool = True
    reason: str = ""


class Gate:
    """Measures tests and judges them. One for each pytest session.

    Device, profile and baselines are looked up when they are first needed: a
    session that measures nothing pays for none of them.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._baselines: Baselines | None = None
        self._device: Device | None = None
        self._logs_tt = False
        self._coming: pytest.Item | None = None
        self._around: Measurement | None = None
        self._window: TestWindow | None = None
        self._measured: pytest.Item | None = None

    @property
    def device(self) -> Device:
        """Where fixtures compile. Raises ``DeviceError`` if it is not here."""
        from pytest_graphbreak.config.device import choose

        if self._device is None:
            self._device = choose(self.settings.device, self.settings.arch)
        return self._device

    @cached_property
    def profile(self) -> str:
        """What counts are filed under. Raises ``DeviceError`` for a template it cannot fill."""
        from pytest_graphbreak.config.device import profile_name

        return profile_name(self.settings.profile, self.device)

    @property
    def baselines(self) -> Baselines:
        """The baselines, read when the first test needs them."""
        if self._baselines is None:
            from pytest_graphbreak.baseline import Baselines

            self._baselines = Baselines(self.settings.directory)
        return self._baselines

    def check(self) -> None:
        """Find out before any test runs what would stop the gate.

        Raises ``pytest.UsageError`` for a device that is not here, a profile
        that cannot be named, a baseline that cannot be read.
        """
        from pytest_graphbreak.baseline.model import BaselineError
        from pytest_graphbreak.config.device import DeviceError

        try:
            _ = self.profile
            if self.settings.gate:
                self.baselines.check()
        except (DeviceError, BaselineError) as error:
            raise pytest.UsageError(str(error)) from None

    def measures(self, item: pytest.Item) -> bool:
        """Whether this test is measured: all are, or it carries a cap of its own."""
        return self.settings.active or item.get_closest_marker("max_graphs") is not None

    def warm(self, config: pytest.Config) -> None:
        """Under ``--forked`` import once in the parent what each child would import anew."""
        if not config.getoption("forked", default=False):
            return
        from pytest_graphbreak.watching.measure import observers

        observers()
        for name in ("suite.window", "judging.verdict", "report.text"):
            importlib.import_module(f"pytest_graphbreak.{name}")
        if "torch" in sys.modules:
            importlib.import_module("torch._dynamo")

    def log_tt(self, config: pytest.Config, items: Iterable[pytest.Item] = ()) -> None:
        """Turn on the TT plugin's log until the end of the session, if tests here may use TT.

        Before the plugin is loaded, since that is when it reads its variables.
        Where nothing was asked for, only if a test of ``items`` is to be counted.
        """
        if not self._logs_tt and (self.settings.active or any(map(_counts, items))):
            self.count_tt(config)

    def count_tt(self, config: pytest.Config) -> None:
        """As ``log_tt``, for a test that is counted for certain."""
        from pytest_graphbreak.config.device import runs_tt

        if not self._logs_tt and runs_tt(self.settings.device):
            from pytest_graphbreak.layers.tt.observer import turn_on

            config.add_cleanup(turn_on(self.settings.tt_log))
            self._logs_tt = True

    def setup(self, item: pytest.Item) -> Generator[None, object, object]:
        """The set-up: what wider fixtures compile is told; the test's own are part of the test."""
        from pytest_graphbreak.watching.measure import Measurement, explain

        explain(self.settings.reasons)
        self.end()
        entry = item.stash[ENTRY] = {"nodeid": canonical(item)}
        self._coming, self._around = item, Measurement(self.settings.root)
        try:
            return (yield)
        except BaseException:  # of its own fixtures, or skipped by one: told, not judged
            if self._window is not None:
                _not_judged(entry, self._close(entry))
            raise
        finally:
            self._coming = None
            _add_around(entry, "setup", self._around.close().graphs)

    def fixture(self, scope: str) -> Generator[None, object, object]:
        """A fixture is set up: the first of function scope opens the window of its test."""
        if scope == "function":
            if self._coming is not None and self._window is None:
                self._open(self._coming)
            return (yield)
        if self._window is None:
            return (yield)
        with self._window.aside():
            return (yield)

    def teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        """The tear-down: what compiles there is told, never judged."""
        from pytest_graphbreak.watching.measure import Measurement, explain

        explain(self.settings.reasons)
        with Measurement(self.settings.root) as seen:
            result = yield
        entry = item.stash.setdefault(ENTRY, {"nodeid": canonical(item)})
        _add_around(entry, "teardown", seen.close().graphs)
        return result

    def call(self, item: pytest.Item) -> Generator[None, object, object]:
        """The call, and the end of the window. Raises ``GraphBudgetFailure`` to fail the test."""
        from pytest_graphbreak.watching.measure import explain

        explain(self.settings.reasons)
        nodeid = canonical(item)
        entry = item.stash[ENTRY] = _fresh_entry(item, nodeid)
        item.stash[FAILED_SUBTEST] = False
        if self._window is None or self._measured is not item:
            self._open(item)
        assert self._window is not None
        try:
            cap, way = marked_cap(item), marked_way(item)
            self._window.call()
            item.stash[RUNNING] = True
            result = yield
        except BaseException:
            # The test's own failure, skip or xfail stands; what it did is told, not judged.
            item.stash[RUNNING] = False
            record = self._close(entry)
            _not_judged(entry, record)
            _junit(item, record)
            raise
        item.stash[RUNNING] = False
        record = self._close(entry)
        _junit(item, record)
        if item.stash[FAILED_SUBTEST]:
            _not_judged(entry, record)
            entry["failed_by"] = "test"
            return result
        judged = self._judge(item, nodeid, record, cap, way, entry["fixtures"])
        entry.update(judged.entry)
        if judged.fails:
            raise GraphBudgetFailure(judged.entry["message"], pytrace=False)
        return result

    def end(self) -> None:
        """Close what an interrupted test has left open."""
        if self._window is not None:
            self._window.close()
            self._window = self._measured = None

    def _open(self, item: pytest.Item) -> None:
        """The window of a test opens: what is compiled from now on is the test's."""
        from pytest_graphbreak.suite.window import TestWindow

        self.end()
        if self._around is not None:
            self._around.close()
        nodeid = canonical(item)
        cold = self.settings.isolate and _isolated(item)
        self._window = TestWindow(
            self.settings.root, nodeid, cold=cold, trace=self._trace(item, nodeid)
        )
        self._measured = item

    def _close(self, entry: Plain) -> Record:
        """The window of a test closes; ``entry`` is told which share fixtures have in it."""
        window = self._window
        assert window is not None
        self._window = self._measured = None
        record = window.close()
        _add_around(entry, "setup", window.around)
        entry["fixtures"] = _plain(window.fixtures)
        return record

    def _trace(self, item: pytest.Item, nodeid: str) -> Trace | None:
        """The trace of this test; ``attach`` decides whether it stays."""
        if self.settings.trace is None:
            return None
        from pytest_graphbreak.suite.trace import Trace

        trace = item.stash[TRACE] = Trace(self.settings.trace, nodeid)
        return trace

    def _judge(
        self,
        item: pytest.Item,
        nodeid: str,
        record: Record,
        cap: caps.Cap | None,
        way: Way,
        fixtures: Mapping[str, int],
    ) -> _Judged:
        from pytest_graphbreak.baseline.model import BaselineError
        from pytest_graphbreak.config.device import version
        from pytest_graphbreak.judging.verdict import STRICT, judge
        from pytest_graphbreak.report import text

        baseline = expected = None
        if self.settings.gate:
            try:
                baseline = self.baselines.entry(nodeid)
                expected = self.baselines.expected(nodeid, self.profile)
            except BaselineError as error:  # a test outside of the rootdir can have none
                if record.active:
                    record = replace(record, errors=(*record.errors, str(error)))
        ungated = _ungated(way, baseline)
        torch = version("torch")
        packages = self._packages(record) if expected and expected.packages else {}
        verdict = judge(
            record,
            expected,
            cap,
            gate=self.settings.gate,
            torch=torch,
            packages=packages,
            ops=self.settings.ops,
        )
        written = ungated is None and self._is_to_write(verdict)
        if ungated is not None:
            verdict = replace(verdict, name="none")
        elif written and (capped := judge(record, None, cap, torch=torch)).fails:
            # What is written passes; the marker is judged as always, and then nothing is.
            verdict, written = capped, False
        failing = verdict.fails or (self.settings.strict and verdict.name in STRICT)
        passes = written or (
            verdict.name == "new" and (self.settings.new == "report" or marked_xfail(item))
        )
        # A run that only observes fails no test: a verdict is then a marker's, or nobody's.
        fails = failing and not passes and (self.settings.gate or cap is not None)
        context = (
            self._context(item, nodeid, record, baseline, expected, fixtures) if fails else None
        )
        entry = record.to_dict() | {
            "verdict": verdict.name,
            "baseline": budget.baseline(expected),
            "budget": budget.budget(record, expected, cap),
            "cap": None if cap is None else cap.to_dict(),
            "message": None if context is None else text.failure(verdict, record, context),
            "ungated": ungated,
            "unseen": list(verdict.unseen),
            "foreign": verdict.foreign,
            "written": written,
        }
        return _Judged(entry, fails)

    def _is_to_write(self, verdict: Verdict) -> bool:
        """Whether the end of the session will record what this test did."""
        if verdict.name == "new":
            return self.settings.update or self.settings.record
        if verdict.shrunk:
            return self.settings.update
        if verdict.name == "lost" or verdict.emptied:
            return self.settings.prune
        return self.settings.update and verdict.name in ("over", "improved", "changed")

    def _context(
        self,
        item: pytest.Item,
        nodeid: str,
        record: Record,
        entry: Entry | None,
        expected: Expected | None,
        fixtures: Mapping[str, int],
    ) -> Context:
        from pytest_graphbreak.config.device import version
        from pytest_graphbreak.report.context import Context

        file, line, name = item.location
        return Context(
            nodeid=nodeid,
            profile=self.profile,
            torch=version("torch"),
            baseline=_shown(entry, self.settings),
            baseline_line=entry.line if entry else None,
            recorded_profile=expected.profile if expected else None,
            recorded_torch=expected.torch if expected else None,
            packages=self._packages(record),
            recorded_packages=expected.packages if expected else {},
            accept=self._accepting(nodeid) if in_ci() else None,
            typed=self.settings.typed,
            test=Frame(file, name, 0 if line is None else line + 1),
            fixtures=fixtures,
        )

    def _packages(self, record: Record) -> dict[str, str]:
        """The versions of the packages that own places of a record."""
        from pytest_graphbreak.config import packages as owners

        return owners.versions(owners.files_of(record.to_dict()), self.settings.root)

    def _accepting(self, nodeid: str) -> str:
        """What accepts the count of a test that failed in CI, where no baseline is written."""
        from pytest_graphbreak.runs import accepting

        report = self.settings.report
        if report is None:
            return "add --graph-budget-report=graphs.json, and keep graphs.json as an artifact"
        return accepting.command(shlex.quote(report.name), nodeid, accepting.this_run())


@dataclass(frozen=True, slots=True)
class _Judged:
    entry: Plain
    fails: bool


def attach(item: pytest.Item, call: pytest.CallInfo[Any], report: pytest.TestReport) -> None:
    """Put the plain dict of a test on its report, and say who failed it.

    Only the report of a whole phase carries it. A subtest's report is made
    while the call phase still runs; it only leaves word that a subtest failed.
    """
    block = call.when == "call" and _is_over_in_a_block(call)
    if block:
        report.sections[:] = _without_trace(report.sections)
    if ENTRY not in item.stash:  # it is not measured
        return
    if call.when == "call" and item.stash.get(RUNNING, False):
        item.stash[FAILED_SUBTEST] = item.stash.get(FAILED_SUBTEST, False) or report.failed
        return
    over = call.when == "call" or (call.when == "setup" and not report.passed)
    if over and (trace := item.stash.get(TRACE, None)) is not None:
        trace.settle(failed=report.failed)
    entry = item.stash[ENTRY]
    typed = item.config.stash[GATE].settings.typed
    if call.when == "setup" and report.failed and "verdict" in entry:
        _add_section(report, entry, call, typed)
    if call.when == "call" and report.failed:
        ours = call.excinfo is not None and isinstance(call.excinfo.value, GraphBudgetFailure)
        entry["failed_by"] = "gate" if ours else "test"
        if ours:
            report.sections[:] = _without_trace(report.sections)
        elif "verdict" in entry:
            # A unittest class keeps its failure to itself until here.
            entry.update(verdict="none", message=None)
            if not block:  # its own text says it
                _add_section(report, entry, call, typed)
    # A copy, since the dict grows on: teardown adds what it compiled.
    report.graphbreak = dict(entry)  # type: ignore[attr-defined]


def dress(report: pytest.TestReport) -> None:
    """Give the gate's failure text its colours, where it is printed.

    The text itself crosses processes as a plain str, and stays one in junit.
    """
    data: Plain = getattr(report, "graphbreak", None) or {}
    if report.when == "call" and data.get("failed_by") == "gate" and data.get("message"):
        from pytest_graphbreak.report.failure import Dressed

        report.longrepr = Dressed(data["message"], report.location)  # type: ignore[assignment]


def _fresh_entry(item: pytest.Item, nodeid: str) -> Plain:
    """The dict of this attempt; of an earlier one, only what setup compiled is kept."""
    before = item.stash.get(ENTRY, None) or {}
    return {"nodeid": nodeid} | {key: before[key] for key in ("setup",) if key in before}


def _add_around(entry: Plain, phase: str, graphs: Mapping[str, int]) -> None:
    """Tell in ``entry`` what was compiled in a phase and is not the test's."""
    told = Counter(entry.get(phase, {}).get("graphs", {}))
    told.update(graphs)
    if any(told.values()):
        entry[phase] = {"graphs": _plain(told)}


def _plain(counts: Mapping[str, int]) -> dict[str, int]:
    return {layer: count for layer, count in counts.items() if count}


def _not_judged(entry: Plain, record: Record) -> None:
    entry.update(record.to_dict(), verdict="none", message=None)


def _is_over_in_a_block(call: pytest.CallInfo[Any]) -> bool:
    """Whether a ``with graph_budget(...)`` block, or ``observe``, failed the test."""
    watch = sys.modules.get("pytest_graphbreak.watching.watch")
    return bool(watch and call.excinfo and isinstance(call.excinfo.value, watch.BudgetExceeded))


def _without_trace(sections: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Captured logs without the empty records of ``torch.__trace``.

    From 9.1 on pytest listens to loggers that do not propagate, so a test that
    compiles fills its log with hundreds of them; below our text they hide it.
    On a terminal pytest colours the level of each.
    """
    return [
        (name, kept)
        for name, text in sections
        if (kept := _told(text) if "log" in name else text) or not text
    ]


def _told(log: str) -> str:
    lines = log.splitlines(keepends=True)
    return "".join(line for line in lines if not _EMPTY_TRACE.match(_COLOUR.sub("", line)))


def _add_section(
    report: pytest.TestReport, entry: Mapping[str, Any], call: pytest.CallInfo[Any], typed: Typed
) -> None:
    """What a test that failed by itself compiled, and which kind of compile failure it is."""
    from pytest_graphbreak.advice import triage
    from pytest_graphbreak.report import text

    record = Record.from_dict(entry)
    if record.active or record.errors:
        words = text.describe(record)
        if record.active and call.excinfo is not None:
            words = "\n".join(
                (words, *triage.of_error(call.excinfo.value, typed.test(entry["nodeid"])))
            )
        report.sections[:] = [*_without_trace(report.sections), ("graph budget", words)]


def _counts(item: pytest.Item) -> bool:
    """Whether a test has graphs counted without any option."""
    wanted = {"compile_model", "graph_budget"}
    return item.get_closest_marker("max_graphs") is not None or not wanted.isdisjoint(
        getattr(item, "fixturenames", ())
    )


def canonical(item: pytest.Item) -> str:
    """The node id without the ``@group`` that xdist's loadgroup appends (until pytest 9.1)."""
    for mark in item.iter_markers("xdist_group"):
        name = mark.args[0] if mark.args else mark.kwargs.get("name", "default")
        if item.nodeid.endswith(f"@{name}"):
            return item.nodeid.removesuffix(f"@{name}")
    return item.nodeid


def marked_cap(item: pytest.Item) -> caps.Cap | None:
    """The closest ``max_graphs`` marker. A wrong one fails the test, saying what is allowed."""
    mark = item.get_closest_marker("max_graphs")
    if mark is None:
        return None
    try:
        return caps.parse(mark.args, mark.kwargs, "@pytest.mark.max_graphs")
    except caps.CapError as error:
        wrong = str(error)
    # Outside the handler: the message alone is what the user should see.
    pytest.fail(wrong, pytrace=False)


def marked_way(item: pytest.Item) -> Way:
    """The closest ``graph_budget`` marker. A wrong one fails the test."""
    mark = item.get_closest_marker("graph_budget")
    if mark is None:
        return Way()
    allowed = "allowed: graph_budget(gate=False, isolate=False, reason='...')"
    kinds = {"gate": bool, "isolate": bool, "reason": str}
    if mark.args or not mark.kwargs:
        pytest.fail(f"@pytest.mark.graph_budget: takes names only; {allowed}", pytrace=False)
    for key, value in mark.kwargs.items():
        if key not in kinds or not isinstance(value, kinds[key]):
            message = f"@pytest.mark.graph_budget: {key}={value!r} is not known; {allowed}"
            pytest.fail(message, pytrace=False)
    return Way(**mark.kwargs)


def _isolated(item: pytest.Item) -> bool:
    """What the marker says of isolation; a wrong marker fails the test in its call."""
    try:
        return marked_way(item).isolate
    except pytest.fail.Exception:
        return True


def marked_xfail(item: pytest.Item) -> bool:
    """Whether an xfail marker holds here, so that a new test is reported and not failed.

    A condition that is a string is not evaluated, and counts as one that does
    not hold: then the test is judged.
    """
    if item.config.getoption("runxfail", default=False):
        return False
    for mark in item.iter_markers("xfail"):
        conditions = (
            *mark.args,
            *([mark.kwargs["condition"]] if "condition" in mark.kwargs else ()),
        )
        if not conditions or any(c for c in conditions if not isinstance(c, str)):
            return True
    return False


def _ungated(way: Way, baseline: Entry | None) -> str | None:
    """Why the test is not judged; None where it is."""
    if not way.gate:
        return way.reason or "marked graph_budget(gate=False)"
    return baseline.ungated if baseline else None


def _shown(entry: Entry | None, settings: Settings) -> str | None:
    if entry is None:
        return None
    try:
        return str(entry.path.relative_to(settings.root))
    except ValueError:
        return str(entry.path)


def _junit(item: pytest.Item, record: Record) -> None:
    """Per-test junit properties; those of an earlier attempt are replaced."""
    ours = ("graphs", "recompiles", "breaks")
    kept = [(name, value) for name, value in item.user_properties if name not in ours]
    if record.active:
        layer = record.headline
        kept += [
            ("graphs", record.graphs.get(layer, 0)),
            ("recompiles", record.recompiles.get(layer, 0)),
            ("breaks", len(record.breaks)),
        ]
    item.user_properties[:] = kept
