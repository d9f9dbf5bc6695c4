"""The controller of a run: collects the results of tests, writes baselines and the report.

With xdist, this is the process that runs no test. Nothing is decided in the terminal summary, so
``-p no:terminal`` changes no result.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Generator, Hashable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import asdict, replace

from pytest_graphbreak.baseline import BaselineError, Entry, Measured, update
from pytest_graphbreak.config.device import environment
from pytest_graphbreak.config.packages import files_of, owners
from pytest_graphbreak.config.settings import Settings, clear_report
from pytest_graphbreak.config.typed import this_run
from pytest_graphbreak.judging.measured import measurement
from pytest_graphbreak.model import json as json_report
from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.model.json import report_json
from pytest_graphbreak.model.report import RunReport, SessionReport, TestReport
from pytest_graphbreak.report import summary
from pytest_graphbreak.report.root_causes import places_of_failure
from pytest_graphbreak.suite.collection import CollectedTests, Collector, file_of, gone_files, shard
from pytest_graphbreak.suite.gate import Gate
from pytest_graphbreak.suite.reports import write_lines
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


class Tally(Struct):
    """The results of one test, of its last attempt only.

    ``outcome`` is None until a report says one: then its process died. ``data`` is its entry.
    """

    attempts: int = 0
    outcome: str | None = None
    failed_by: str | None = None
    data: Plain = {}


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
        data: Plain = getattr(report, "graphbreak", None) or {}
        nodeid = str(data.get("nodeid") or report.nodeid)
        tally = self.tallies.setdefault(nodeid, Tally())
        if report.when == "setup":
            tally.attempts += 1
            tally.outcome, tally.failed_by, tally.data = None, None, {}
        tally.data = {**tally.data, **data}
        _take_outcome(tally, report)
        # A later failure of causes that are told of already only names their first tests.
        # ``shorten`` is that of ``FailureText``, which ``reports.colour`` made in an earlier hook.
        shorten = getattr(report.longrepr, "shorten", None)
        if shorten is not None and data.get("failed_by") == "gate" and not data.get("block"):
            test = json_report.entry(nodeid, "failed", data, failed_by="gate", attempts=1)
            causes = places_of_failure(test)
            tests = dict.fromkeys(self._first_test_of.setdefault(cause, nodeid) for cause in causes)
            if tests and nodeid not in tests:
                shorten(" and ".join(tests))

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
        outcome.tests = [
            json_report.entry(
                nodeid,
                tally.outcome or "crashed",
                tally.data,
                failed_by=tally.failed_by,
                attempts=tally.attempts,
            )
            for nodeid, tally in self.tallies.items()
        ]
        files = (file for test in outcome.tests for file in files_of(test.record))
        packages = owners(files, self.settings.root)
        outcome.environment = replace(outcome.environment, packages=packages)
        outcome.unmeasured = self._unmeasured_tests()
        if self.settings.gate and self._is_whole and exitstatus in WRITABLE:
            self._settle_baselines()
        code = self._exit_code(exitstatus)
        if code != exitstatus:
            session.exitstatus = code
        # OK though tests are missing: a second Ctrl-C comes before pytest has set its code, and
        # ``pytest.exit`` may choose any. The report of such a run is that of an interrupted one.
        is_cut = exitstatus == OK and not self._is_whole
        report = self._report(pytest.ExitCode.INTERRUPTED if is_cut else code)
        if _is_on_github():
            self._publish_on_github(report)
        if self.settings.report is not None:
            self._write_report(report)
            if outcome.faults and session.exitstatus == OK:
                session.exitstatus = FAILED
        if outcome.faults and not self._has_summary():
            for fault in outcome.faults:
                print(f"graph budget: {fault}", file=sys.stderr)

    def _stale(self) -> list[Entry]:
        """Return the entries without a test; ``outcome.complete_files`` is set by then."""
        baselines = self.gate.baselines
        return baselines.stale(
            self.collector.collected.nodeids,
            self.outcome.complete_files,
            gone_files=gone_files(self.config, baselines.files()),
            profile=self.gate.profile,
        )

    def _unmeasured_tests(self) -> list[str]:
        """Return the tests that ran, or should have run, and were not measured."""
        ran = self.tallies.items()
        crashed = [nodeid for nodeid, tally in ran if tally.outcome in (None, "crashed")]
        blind = [
            nodeid
            for nodeid, tally in ran
            if tally.outcome in ("passed", "xpassed") and "verdict" not in tally.data
        ]
        not_run: list[str] = []
        if crashed:
            collected = self.collector.collected.nodeids
            not_run = [nodeid for nodeid in collected if nodeid not in self.tallies]
        return list(dict.fromkeys((*crashed, *blind, *not_run)))

    def _complete_files(self) -> list[str]:
        """Return the files that were collected completely and of which every test ran."""
        unfinished = {
            file_of(nodeid)
            for nodeid in self.collector.collected.nodeids
            if nodeid not in self.tallies
        }
        unfinished |= {file_of(nodeid) for nodeid in self.outcome.unmeasured}
        return [file for file in self.collector.collected.complete_files if file not in unfinished]

    def _settle_baselines(self) -> None:
        """Find stale entries; write if update, record or prune is requested."""
        outcome, settings = self.outcome, self.settings
        outcome.complete_files = self._complete_files()
        try:
            self.gate.check_baselines(self.config)
            outcome.stale = self._stale()
            if settings.writes:
                outcome.changes = update(
                    settings.directory,
                    list(self._measurements()),
                    mode="record" if settings.record and not settings.update else "update",
                    prune=outcome.stale if settings.prune else None,
                )
                # ``kept``: not written, since another entry would be removed for it.
                outcome.faults += [
                    f"{item.nodeid} was not recorded: its entry in {item.path.name} has "
                    f"{'no ' if item.nodeid.endswith(']') else ''}cases. If it is out of date: "
                    "--graph-budget-prune, or --graph-budget-update"
                    for item in outcome.changes.of_kind("kept")
                ]
                if settings.prune:
                    outcome.stale = []
        except BaselineError as error:
            outcome.faults.append(str(error))

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

        Without update and record, a prune still writes what is ``lost``: compiled code that is gone
        is only written together with a prune (``Verdict.needs_prune``).
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

    def _report(self, code: int) -> RunReport:
        outcome, collected = self.outcome, self.collector.collected
        session = SessionReport(
            exit=int(code),
            collected=len(collected.nodeids) + collected.deselected,
            deselected=collected.deselected,
            complete_files=tuple(outcome.complete_files or self._complete_files()),
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
            json_report.write(self.settings.report, report_json(report))
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


def _take_outcome(tally: Tally, report: pytest.TestReport) -> None:
    """Set pytest's outcome of a test from the reports of its phases."""
    if _is_crash(tally, report):
        tally.outcome, tally.failed_by = "crashed", "test"
    elif report.failed or str(report.outcome) == "rerun":
        # rerunfailures calls a failed attempt ``rerun``; a new set-up report follows.
        tally.outcome = "failed"
        # The gate fails a test in its call, or by a block wherever that is.
        may_be_ours = report.when == "call" or hasattr(report, "graphbreak_block")
        tally.failed_by = tally.data.get("failed_by", "test") if may_be_ours else "test"
    elif report.skipped and report.when != "teardown":
        tally.outcome = "xfailed" if hasattr(report, "wasxfail") else "skipped"
    elif report.when == "call":
        tally.outcome = "xpassed" if hasattr(report, "wasxfail") else "passed"
        if tally.data.get("failed_by"):  # a subtest failed; pytest says so only when it prints
            tally.outcome, tally.failed_by = "failed", "test"


def _is_crash(tally: Tally, report: pytest.TestReport) -> bool:
    """Return whether a report was made up for a process that died.

    pytest-forked and xdist use ``???`` as the phase, and other hooks may change that (those of
    tt-xla make it a teardown, for junit). What still shows it: the test's call has no report, and
    this report was not made in the test's process.
    """
    if report.when not in ("setup", "call", "teardown"):
        return True
    unseen = tally.outcome is None and not hasattr(report, "graphbreak")
    return bool(report.failed) and report.when != "setup" and unseen
