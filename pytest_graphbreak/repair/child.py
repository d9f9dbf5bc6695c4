"""Runs a script or a test in a process of its own, for an order of a bench."""

from __future__ import annotations

import importlib
import importlib.machinery
import linecache
import os
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

Answer = dict[str, Any]

_ORDERS: Final = ("measure", "compare", "cut", "timing", "exporting")
"""The modules that carry out an order: ``work(order, go)``, where ``go`` runs the target."""


def work(order: Answer) -> Answer:
    """Carry out an order of ``trial``, and return the answer."""
    os.chdir(order["cwd"])
    target = Path(order["path"])
    sys.argv = [str(target), *order["arguments"]]
    order["base"] = sys.path[1:]
    sys.path[0] = str(target.resolve().parent)
    if order.get("replaced"):
        _replace(*order["replaced"])
    assert order["kind"] in _ORDERS
    module = importlib.import_module(f"pytest_graphbreak.repair.{order['kind']}")
    answer: Answer = module.work(order, lambda around: go(order, around))
    return answer


def _replace(old: str, new: str) -> None:
    """Let an import of one file read another: a module with a patch in place of that without."""
    loader = importlib.machinery.SourceFileLoader
    plain, stats = loader.get_data, loader.path_stats
    wanted = os.path.realpath(old)

    def get_data(self: Any, path: str) -> bytes:
        return plain(self, new if os.path.realpath(path) == wanted else path)

    def path_stats(self: Any, path: str) -> Any:
        if os.path.realpath(path) == wanted:
            raise OSError("there is no compiled code of it")
        return stats(self, path)

    loader.get_data, loader.path_stats = get_data, path_stats  # type: ignore[method-assign]
    text = Path(new).read_text("utf-8")
    linecache.cache[wanted] = (len(text), None, text.splitlines(keepends=True), wanted)


def go(order: Answer, around: Callable[[], Any]) -> Answer | None:
    if order["test"]:
        return _test(order, around)
    _script(order, around)
    return None


def _script(order: Answer, around: Callable[[], Any]) -> None:
    """Run a file as Python does: as ``__main__``, with its directory first on the path."""
    path = order["path"]
    module = types.ModuleType("__main__")
    module.__file__ = path
    module.__builtins__ = __builtins__  # type: ignore[attr-defined]
    sys.modules["__main__"] = module
    with around():
        code = compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
        exec(code, module.__dict__)


class _Watch:
    """A plugin of pytest that measures the call phase of one test, and notes why it did not run."""

    def __init__(self, around: Callable[[], Any]) -> None:
        self.calls = 0
        self.reports: list[str] = []
        self._around = around

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and report.when != "call":
            self.reports.append(f"{report.when}: {report.longreprtext.splitlines()[-1]}")
        if report.skipped:
            self.reports.append("the test was skipped")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: Any) -> None:
        from pytest_graphbreak.repair import steady

        steady.seed()  # for weights that a fixture makes, of whatever scope

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: Any) -> Iterator[None]:
        # A failure is not passed on: the question is what the test did.
        with self._around():
            yield
        self.calls += 1


def _test(order: Answer, around: Callable[[], Any]) -> Answer:
    """Run one test with pytest, and measure its call phase."""
    watch = _Watch(around)
    nodeid = f"{order['path']}::{order['test']}"
    # As if the file were run: a file that ``fix`` writes does nothing if it is imported.
    program = sys.modules["__main__"] = types.ModuleType("__main__")
    program.__file__ = os.path.abspath(order["path"])
    sys.path.append(os.getcwd())  # last on the path, for modules only found there
    options = ["-q", "-p", "no:cacheprovider", "-o", "addopts=", "-o", "graph_budget=false"]
    code = pytest.main([*options, nodeid], plugins=[watch])
    if watch.calls == 1:
        return {}
    why = "; ".join(watch.reports) or f"pytest ended with {int(code)}"
    if watch.calls > 1:
        why = f"{watch.calls} tests have this id; give one of them, with its [parameters]"
    return {"error": why}
