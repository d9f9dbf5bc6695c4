"""Measures a test in its phases: set-up, fixtures, call and tear-down.

The measured window of a test is its own fixtures and its call. It opens before the first fixture of
function scope is set up, which pytest does after all of wider scope, and closes when the call has
ended. Caches are isolated when it opens: whatever a test's own fixtures enter, warm up or leave
pending is part of the test. A test without such fixtures is measured from its call on.

    pytest's phase   what runs in it                    what measures it
    set-up           fixtures of wider scope            ``_around_setup``, which is only reported
                     own fixtures, from the first on    the window
                     wider ones that these ask for      excluded from the window, and reported
    call             the test                           the window, which then closes: judged
    tear-down        all fixtures                       a measurement of its own, only reported

This module is imported, and its hooks are registered, only if a test is measured: those of
``plugin`` run in every pytest run of the environment, and even a wrapper that does nothing costs
some time in each test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pytest_graphbreak.measuring.measure import Measurement, hold_sensors, isolate, set_detail
from pytest_graphbreak.model.budget import Cap
from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.suite.entry import (
    ENTRY,
    FAILED_SUBTEST,
    RUNNING,
    add_around,
    add_leaks,
    begin_entry,
    counts,
    not_judged,
    set_properties,
)
from pytest_graphbreak.suite.gate import Gate
from pytest_graphbreak.suite.judging import judge
from pytest_graphbreak.suite.leaks import Leaks
from pytest_graphbreak.suite.markers import (
    GraphBudgetMark,
    canonical,
    is_isolated,
    marked_budget,
    marked_cap,
)
from pytest_graphbreak.suite.reports import GraphBudgetFailure


class TestWindow:
    """The window of one attempt of one test.

    ``fixtures`` counts, by layer, the graphs that its own fixtures made, ``around`` those that
    fixtures of wider scope made meanwhile, which do not belong to the test.
    """

    __test__ = False

    def __init__(self, root: Path, nodeid: str, *, cold: bool) -> None:
        if cold:
            isolate(nodeid)
        self._root = root
        self._measurement = Measurement(root)
        self._is_excluding = self._called = False
        self.around: Counter[str] = Counter()
        self.fixtures: Counter[str] = Counter()

    def call(self) -> None:
        """Begin the call; the graphs so far are the share of its fixtures."""
        self._called = True
        self.fixtures = Counter(self._measurement.peek().graphs)

    @contextmanager
    def exclude(self) -> Iterator[None]:
        """Exclude a fixture of wider scope that is set up because the test requested it."""
        if self._is_excluding:
            yield
            return
        self._is_excluding = True
        measurement = Measurement(self._root)
        try:
            with self._measurement.exclude():
                yield
        finally:
            self._is_excluding = False
            self.around.update(measurement.close().graphs)

    def close(self) -> Record:
        """Stop measuring; closing again returns the same record."""
        record = self._measurement.close()
        if not self._called:  # a fixture failed, or skipped the test
            self.fixtures = Counter(record.graphs)
        return record


class Phases:
    """Opens and closes the window of each test. There is one for each pytest session.

    Its wrappers of set-up and tear-down are the innermost of all plugins' (``trylast``), as is that
    of the call in ``plugin``; that of fixtures is the outermost.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._settings = gate.settings
        self._setting_up: pytest.Item | None = None
        self._around_setup: Measurement | None = None
        """What the set-up compiles until the window opens, or to its end: closing twice is fine."""
        self._window: TestWindow | None = None
        self._window_of: pytest.Item | None = None
        """Its test; a call of another one finds a window that an interrupted test left open."""
        self._leaks = Leaks()
        self._fault = ""
        """The error in the baseline file of the test."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Read the baseline of the test here, once, so that a forked child need not do it.

        Its set-up, call and tear-down are three windows with the same sensors.
        """
        self._fault = self._gate.fault(item)
        if not self._gate.measures(item):
            return (yield)
        with hold_sensors():
            return (yield)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        """Measure the set-up: graphs of wider fixtures are reported, its own belong to the test."""
        if self._fault:
            pytest.fail(self._fault, pytrace=False)
        if not self._gate.measures(item):
            return (yield)
        self._tell_observers()
        self.end()
        entry = item.stash[ENTRY] = {"nodeid": canonical(item)}
        self._setting_up, self._around_setup = item, Measurement(self._settings.root)
        try:
            return (yield)
        except BaseException:  # by its own fixtures, or skipped by one: reported, not judged
            if self._window is not None:
                not_judged(entry, self._close(entry))
            raise
        finally:
            self._setting_up = None
            add_around(entry, "setup", self._around_setup.close().graphs)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(
        self, request: pytest.FixtureRequest
    ) -> Generator[None, object, object]:
        """Follow a fixture; the first one of function scope opens the window of its test."""
        if request.scope == "function":
            if self._setting_up is not None and self._window is None:
                self._open(self._setting_up)
            with self._leaks.fixture():
                return (yield)
        if self._window is None:
            return (yield)
        with self._window.exclude(), self._leaks.fixture():
            return (yield)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        """Measure the tear-down: what it compiles is reported, but never judged."""
        if not self._gate.measures(item):
            return (yield)
        self._tell_observers()
        with Measurement(self._settings.root) as seen:
            result = yield
        entry = item.stash.setdefault(ENTRY, {"nodeid": canonical(item)})
        add_around(entry, "teardown", seen.close().graphs)
        return result

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[Any]) -> None:
        """Restore what the call left, after the tear-down and the hooks of all other plugins."""
        if call.when == "teardown":
            leaked = self._leaks.settle()
            if leaked.notes:
                add_leaks(item.stash[ENTRY], leaked.settings, leaked.notes)

    def call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Run the call and close the window. Raises ``GraphBudgetFailure`` to fail the test."""
        self._tell_observers()
        entry = begin_entry(item, canonical(item))
        item.stash[FAILED_SUBTEST] = False
        if self._window is None or self._window_of is not item:
            self._open(item)
        assert self._window is not None
        try:
            cap, mark = marked_cap(item), marked_budget(item)
            self._window.call()
            self._leaks.begin(entry["nodeid"], put_back=self._settings.isolate and mark.isolate)
            item.stash[RUNNING] = True
            result = yield
        except BaseException:
            # The test's own failure, skip or xfail is kept; its record is reported, not judged.
            item.stash[RUNNING] = False
            record = self._close(entry)
            not_judged(entry, record)
            set_properties(item, record)
            raise
        item.stash[RUNNING] = False
        record = self._close(entry)
        set_properties(item, record)
        if item.stash[FAILED_SUBTEST]:
            not_judged(entry, record)
            entry["failed_by"] = "test"
            return result
        self._judge(item, record, cap, mark)
        return result

    def _judge(
        self, item: pytest.Item, record: Record, cap: Cap | None, mark: GraphBudgetMark
    ) -> None:
        """Put the verdict into the entry. Raises ``GraphBudgetFailure`` to fail the test."""
        entry = item.stash[ENTRY]
        judged = judge(self._gate, item, record, cap, mark, entry["fixtures"])
        entry.update(record=judged.case.record.to_dict(), **judged.to_dict())
        if judged.fails:
            raise GraphBudgetFailure(judged.message, pytrace=False)

    def end(self) -> None:
        """Close what an interrupted test left open."""
        self._leaks.settle()
        if self._window is not None:
            self._window.close()
            self._window = self._window_of = None

    def _tell_observers(self) -> None:
        """Tell the observers what this session asks for, at each phase anew.

        They are those of the process: a run of pytest inside a test tells them its own.
        """
        set_detail(reasons=self._settings.reasons, runs=self._settings.counts_runs)

    def _open(self, item: pytest.Item) -> None:
        """Open the window of a test; what is compiled from now on belongs to the test."""
        self.end()
        if self._around_setup is not None:
            self._around_setup.close()
        cold = self._settings.isolate and is_isolated(item)
        self._window = TestWindow(self._settings.root, canonical(item), cold=cold)
        self._window_of = item

    def _close(self, entry: Plain) -> Record:
        """Close the window of a test; ``entry`` gets the share of its fixtures."""
        window = self._window
        assert window is not None
        self._window = self._window_of = None
        self._leaks.end()
        record = self._leaks.add_settings(window.close())
        add_around(entry, "setup", window.around)
        entry["fixtures"] = counts(window.fixtures)
        return record
