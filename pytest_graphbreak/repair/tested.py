"""Runs one test with pytest for a trial."""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pytest_graphbreak.repair.steady import seed

Answer = dict[str, Any]


class _Watch:
    """A plugin of pytest that measures the call phase of one test, and notes why it did not run."""

    def __init__(self, window: Callable[[], Any]) -> None:
        self.calls = 0
        self.reports: list[str] = []
        self.warnings: list[str] = []
        self._around = window

    def pytest_warning_recorded(self, warning_message: Any, when: str) -> None:
        if when == "runtest" and f"{os.sep}torch{os.sep}" not in warning_message.filename:
            self.warnings.append(f"{warning_message.category.__name__}: {warning_message.message}")

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and report.when != "call":
            self.reports.append(f"{report.when}: {report.longreprtext.splitlines()[-1]}")
        if report.skipped:
            self.reports.append("the test was skipped")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: Any) -> None:
        seed()  # for weights that a fixture makes, of whatever scope

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: Any) -> Iterator[None]:
        # A failure is not passed on: the question is what the test did.
        with self._around():
            yield
        self.calls += 1


def run(order: Answer, window: Callable[[], Any]) -> Answer:
    """Run one test with pytest, and measure its call phase."""
    watch = _Watch(window)
    nodeid = f"{order['path']}::{order['test']}"
    # As if the file were run: a file that ``fix`` writes does nothing if it is imported.
    program = sys.modules["__main__"] = types.ModuleType("__main__")
    program.__file__ = os.path.abspath(order["path"])
    sys.path.append(os.getcwd())  # last on the path, for modules only found there
    options = ["-q", "-s", "-p", "no:cacheprovider", "-o", "addopts=", "-o", "graph_budget=false"]
    options.append("--assert=plain")  # else pytest reads the file itself, not what replaces it
    code = pytest.main([*options, nodeid], plugins=[watch])
    if watch.calls == 1:
        return {"warnings": watch.warnings}
    why = "; ".join(watch.reports) or f"pytest ended with {int(code)}"
    if watch.calls > 1:
        why = f"{watch.calls} tests have this id; give one of them, with its [parameters]"
    return {"error": why}
