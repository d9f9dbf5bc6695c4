"""The controller of a run: collects the results of tests, writes baselines and the report.

``plugin`` calls ``register`` if a run measures. While tests run, ``Session`` keeps a ``Tally`` of
each; after the last one, ``pytest_sessionfinish`` settles everything, in this order: what was not
measured, the baselines, the exit code, the report. With xdist, this is the process that runs no
test. Nothing is decided in the terminal summary, so ``-p no:terminal`` changes no result.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Generator, Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict, replace

from pytest_graphbreak.baseline import BaselineError, Change, Entry, Measured, update
from pytest_graphbreak.config.device import environment
from pytest_graphbreak.config.packages import files_of, owners
from pytest_graphbreak.config.settings import Settings, clear_report
from pytest_graphbreak.config.typed import this_run
from pytest_graphbreak.judging.measured import measurement
from pytest_graphbreak.judging.verdict import verdict_of
from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.model.json import report_json, write
from pytest_graphbreak.model.report import RunReport, SessionReport, TestReport
from pytest_graphbreak.report import summary
from pytest_graphbreak.report.root_causes import keys_of_causes
from pytest_graphbreak.suite.collection import CollectedTests, Collector, file_of, gone_files, shard
from pytest_graphbreak.suite.entry import Tally, entry_on
from pytest_graphbreak.suite.gate import Gate
from pytest_graphbreak.suite.reports import FailureText, write_lines
from pytest_graphbreak.text.errors import UserError
from pytest_graphbreak.text.files import REPORT, refuse_foreign

OK, FAILED = pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED
WRITABLE = (OK, FAILED)
"""Exit codes of runs that were completed; only these write baselines."""


def register(config: pytest.Config, gate: Gate) -> None:
    """Set up a run that measures: everything in the controller, only collecting in a worker.

    Raises ``pytest.UsageError`` for an error that would stop the gate (exit 4), before any test
    runs and before any worker starts.
    """
    collector = Collector(config)
    config.pluginmanager.register(collector, "graphbreak-collector")
    if not hasattr(config, "workerinput"):
        clear_report(config, config.option)
    # In a worker as well, since a test may change the variables that select the device.
    gate.check()
    if not hasattr(config, "workerinput"):
        gate.check_directory()
        _import_for_the_end(gate.settings)
        config.pluginmanager.register(Session(config, gate, collector), "graphbreak-session")


def _import_for_the_end(settings: Settings) -> None:
    """Import what is needed after the last test, beside what this module imports.

    A test may have left a finder, or files that are none. ``Gate.warm`` is for what tests need.
    """
    if settings.writes:
        importlib.import_module("filelock")
    if _is_on_github():
        importlib.import_module("pytest_graphbreak.report.github")


def _is_on_github() -> bool:
    return os.environ.get("GITHUB_ACTIONS") == "true"


class Session:
    """A pytest plugin object, registered in the controller if the gate or a report is requested."""

    def __init__(self, config: pytest.Config, gate: Gate, collector: Collector) -> None:
        self.config = config
        self.gate = gate
        self.settings = gate.settings
        self.collector = collector
        self.tallies: dict[str, Tally] = {}
        """The tests that began, by node id."""
        self._first_test_of: dict[Hashable, str] = {}
        """The test whose failure tells of a cause in full."""
        self.written: Path | None = None
        """The report, once it is written."""
        self._is_whole = False
        self.outcome = summary.Outcome(
            profile=gate.profile,
            settings=gate.settings,
            environment=environment(gate.device, gate.profile),
        )

    # test reports

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if hasattr(report, "context"):  # the report of a subtest
            return
        entry = entry_on(report)
        nodeid = str(entry.get("nodeid") or report.nodeid)
        self.tallies.setdefault(nodeid, Tally()).take(report)
        failure: object = report.longrepr
        if isinstance(failure, FailureText):  # ``reports.colour`` made it, in an earlier hook
            self._shorten(failure, nodeid, entry)

    def _shorten(self, failure: FailureText, nodeid: str, entry: Plain) -> None:
        """Cut a failure to the names of earlier tests, if these tell of all its causes in full.

        They do not tell of its own marker, where that is exceeded beside its baseline.
        """
        test = Tally(1, "failed", "gate", entry).result(nodeid)
        verdict = verdict_of(test)
        if verdict.by_marker and verdict.acceptable:
            return
        firsts = dict.fromkeys(
            self._first_test_of.setdefault(cause, nodeid) for cause in keys_of_causes(test)
        )
        if firsts and nodeid not in firsts:
            failure.shorten(" and ".join(firsts))

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Pass to an xdist worker how the session was started, which it cannot see."""
        node.workerinput["graphbreak_typed"] = asdict(self.settings.typed)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take the output of an xdist worker; if one crashed, that of any other is enough."""
        output = getattr(node, "workeroutput", None) or {}
        if "graphbreak" in output:
            self.collector.collected = CollectedTests(**output["graphbreak"])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        """Note whether all tests were run, or as many as ``-x`` allows: no signal came between."""
        try:
            result = yield
        except pytest.Session.Failed:
            self._is_whole = True
            raise
        self._is_whole = True
        return result

    # results

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        outcome = self.outcome
        outcome.tests = [tally.result(nodeid) for nodeid, tally in self.tallies.items()]
        files = (file for test in outcome.tests for file in files_of(test.record))
        packages = owners(files, self.settings.root)
        outcome.environment = replace(outcome.environment, packages=packages)
        outcome.unmeasured = self._unmeasured_tests()
        outcome.complete_files = self._complete_files(outcome.unmeasured)
        outcome.is_cut_short = bool(self._tests_not_run())
        if self.settings.gate and self._is_whole and exitstatus in WRITABLE:
            self._settle_baselines(outcome.complete_files)
        code = self._exit_code(exitstatus)
        if code != exitstatus:
            session.exitstatus = code
        report = self._report(pytest.ExitCode.INTERRUPTED if self._is_cut(exitstatus) else code)
        if _is_on_github():
            self._publish_on_github(report)
        if self.settings.report is not None:
            self._write_report(report)
            if outcome.faults and session.exitstatus == OK:
                session.exitstatus = FAILED
        if outcome.faults and not self._has_summary():
            for fault in outcome.faults:
                print(f"graph budget: {fault}", file=sys.stderr)

    def _unmeasured_tests(self) -> list[str]:
        """Return the tests that ran, or should have run, and were not measured."""
        ran = self.tallies.items()
        crashed = [nodeid for nodeid, tally in ran if tally.has_crashed]
        blind = [nodeid for nodeid, tally in ran if tally.is_blind]
        not_run = self._tests_not_run() if crashed else []
        return list(dict.fromkeys((*crashed, *blind, *not_run)))

    def _tests_not_run(self) -> list[str]:
        """Return the tests that were collected and did not come to their turn."""
        nodeids = self.collector.collected.nodeids
        return [nodeid for nodeid in nodeids if nodeid not in self.tallies]

    def _complete_files(self, unmeasured: Iterable[str]) -> list[str]:
        """Return the files that were collected completely and of which every test ran."""
        unfinished = set(map(file_of, (*self._tests_not_run(), *unmeasured)))
        complete = self.collector.collected.complete_files
        return [file for file in complete if file not in unfinished]

    def _settle_baselines(self, complete_files: Sequence[str]) -> None:
        """Find stale entries; write if update, record or prune is requested."""
        outcome, settings = self.outcome, self.settings
        try:
            self.gate.check_baselines(self.config)
            outcome.stale = self._stale(complete_files)
            if settings.writes:
                outcome.changes = update(
                    settings.directory,
                    list(self._measurements()),
                    mode="record" if settings.record and not settings.update else "update",
                    prune=outcome.stale if settings.prune else None,
                )
                outcome.faults += map(_not_recorded, outcome.changes.of_kind("kept"))
                pruned = {change.nodeid for change in outcome.changes.of_kind("pruned")}
                outcome.stale = [
                    entry
                    for entry in outcome.stale
                    if not settings.prune and entry.nodeid not in pruned
                ]
        except BaselineError as error:
            outcome.faults.append(str(error))

    def _stale(self, complete_files: Sequence[str]) -> list[Entry]:
        """Return the entries without a test."""
        baselines = self.gate.baselines
        return baselines.stale(
            self.collector.collected.nodeids,
            complete_files,
            gone_files=gone_files(self.config, baselines.files()),
            profile=self.gate.profile,
        )

    def _measurements(self) -> Iterator[Measured]:
        """Yield the records to write: of tests that passed and could be observed."""
        for test in self.outcome.tests:
            if test.outcome not in ("passed", "xpassed") or test.record.errors:
                continue
            if test.nodeid in self.outcome.unmeasured or not self._is_to_write(test):
                continue
            environment = self.outcome.environment
            yield measurement(test.nodeid, self.gate.profile, environment, test.record)

    def _is_to_write(self, test: TestReport) -> bool:
        """Return whether a measured test is written.

        A prune alone writes a test that passed although it is ``lost``: ``judging.judgement`` let
        it pass, since its counts are written here (``Judgement.written``).
        """
        if not (self.settings.update or self.settings.record):
            return test.verdict == "lost"  # prune only
        if test.ungated is not None and test.baseline is None:
            return False
        return test.record.has_judged_layer or test.baseline is not None

    def _exit_code(self, exitstatus: int) -> int:
        """Return a failing exit code if the gate did not see everything; keep any other failure."""
        if exitstatus != OK:
            return exitstatus
        stale = self.settings.strict and self.settings.gate and self.outcome.stale
        return FAILED if self.outcome.unmeasured or stale or self.outcome.faults else OK

    def _is_cut(self, exitstatus: int) -> bool:
        """Return whether pytest ends with OK though it did not come to the last test.

        ``pytest.exit`` may choose any code. And pytest sets that of a Ctrl-C only after its hooks
        for it (``wrap_session`` of ``_pytest/main.py``): a second Ctrl-C in one of these leaves OK.
        """
        return exitstatus == OK and not self._is_whole

    def _report(self, code: int) -> RunReport:
        outcome, collected = self.outcome, self.collector.collected
        session = SessionReport(
            exit=int(code),
            collected=len(collected.nodeids) + collected.deselected,
            deselected=collected.deselected,
            complete_files=tuple(outcome.complete_files),
            unmeasured=tuple(outcome.unmeasured),
            stale=tuple(item.nodeid for item in outcome.stale),
            collected_whole=tuple(collected.collected_whole),
            deselected_tests=tuple(collected.deselected_tests),
            shard=shard(self.config),
        )
        return RunReport(outcome.environment, tuple(outcome.tests), session, name="this run")

    def _write_report(self, report: RunReport) -> None:
        assert self.settings.report is not None
        try:
            refuse_foreign(self.settings.report, REPORT)  # a test may have written it
            write(self.settings.report, report_json(report))
            self.written = self.settings.report
        except (OSError, UserError) as error:
            self.outcome.faults.append(
                f"{self.settings.report}: the report was not written: {error}"
            )

    def _publish_on_github(self, report: RunReport) -> None:
        """Write annotations and the step summary; ``-p no:graphbreak-github`` turns it off."""
        if self.config.pluginmanager.is_blocked("graphbreak-github"):
            return
        from pytest_graphbreak.report.github import publish

        capture = self.config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
            try:
                accept = self.settings.accept(this_run())
                publish(report, self.settings.root, os.environ, print, accept)
            except OSError as error:
                self.outcome.faults.append(f"the step summary was not written: {error}")

    # terminal output

    def pytest_report_header(self) -> str:
        return summary.header(self.outcome)

    def _has_summary(self) -> bool:
        """Return whether pytest prints a summary; since 9.2 it calls the hook with --no-summary."""
        has_terminal = self.config.pluginmanager.hasplugin("terminalreporter")
        return has_terminal and not self.config.getoption("no_summary")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._has_summary():
            return
        lines = list(summary.lines(self.outcome))
        if lines:
            terminalreporter.section("graph budget")
            write_lines(lines, terminalreporter._tw)
        if self.written is not None:  # worded like pytest's line on --junit-xml
            terminalreporter.write_sep("-", f"generated graph budget report: {self.written}")


def _not_recorded(entry: Change) -> str:
    """Return the fault of an entry that was kept: another one would be removed for it."""
    has_case = entry.nodeid.endswith("]")
    return (
        f"{entry.nodeid} was not recorded: its entry in {entry.path.name} has "
        f"{'no ' if has_case else ''}cases. If it is out of date: "
        "--graph-budget-prune, or --graph-budget-update"
    )
