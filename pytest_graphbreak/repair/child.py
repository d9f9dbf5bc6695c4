"""Runs a script or a test in a process of its own, for an order of a bench.

Each order has what ``trial.Bench.run`` fills in (the ``path`` and ``test`` of the target, its
``arguments``, ``cwd``, ``replaced``), and its ``kind``: the module that carries it out.
"""

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

from pluggy import HookimplMarker

from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.repair.sources import read

hookimpl: Final = HookimplMarker("pytest")
"""``pytest.hookimpl``, without pytest, which a script does not need."""
_replaced: Final[dict[str, str]] = {}
"""Files that are imported or run, and others that are read in their place."""
_ORDERS: Final = ("measure", "border", "cut", "exporting")
"""The modules that carry out an order: ``work(order, go)``, where ``go`` runs the target."""


def work(order: Plain) -> Plain:
    """Carry out an order of ``trial``, and return the answer."""
    os.chdir(order["cwd"])
    target = Path(order["path"])
    sys.argv = [str(target), *order["arguments"]]
    # As Python sets it for a script.
    sys.path[0] = str(target.resolve().parent)
    _replaced.update({os.path.realpath(old): new for old, new in order["replaced"].items()})
    if _replaced:
        _replace()
    assert order["kind"] in _ORDERS  # it is imported by this name
    module = importlib.import_module(f"pytest_graphbreak.repair.{order['kind']}")
    answer: Plain = module.work(order, lambda window: go(order, window))
    return answer


def _replace() -> None:
    """Let an import of one file read another: a module with a patch in place of that without."""
    loader = importlib.machinery.SourceFileLoader
    contents, stats = loader.get_data, loader.path_stats

    def get_data(self: Any, path: str) -> bytes:
        return _contents(path) if os.path.realpath(path) in _replaced else contents(self, path)

    def path_stats(self: Any, path: str) -> Any:
        # Python takes compiled code whose time is that of the file, and reads it on an OSError.
        if os.path.realpath(path) in _replaced:
            raise OSError("there is no compiled code of it")
        return stats(self, path)

    loader.get_data, loader.path_stats = get_data, path_stats  # type: ignore[method-assign]


def _contents(path: str) -> bytes:
    """Return what a file contains, or what is read in its place; its lines have its own name."""
    new = _replaced.get(os.path.realpath(path))
    if new is None:
        return Path(path).read_bytes()
    # Its lines are looked up by its own name; an entry without a time is not read again.
    text = read(Path(new)).text
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    return Path(new).read_bytes()


def go(order: Plain, window: Callable[[], Any]) -> Plain | None:
    """Run the target and enter ``window`` around what counts; return what a test adds."""
    if order["test"]:
        return _test(order, window)
    _script(order, window)
    return None


def _script(order: Plain, window: Callable[[], Any]) -> None:
    """Run a file as Python does: as ``__main__``; ``work`` put its directory on the path."""
    path = order["path"]
    module = types.ModuleType("__main__")
    module.__file__ = path
    module.__builtins__ = __builtins__  # type: ignore[attr-defined]
    sys.modules["__main__"] = module
    with window():
        code = compile(_contents(path), path, "exec", dont_inherit=True)
        exec(code, module.__dict__)


class _Watch:
    """A plugin of pytest that measures the call phase of one test, and notes why it did not run."""

    def __init__(self, window: Callable[[], Any]) -> None:
        self.calls = 0
        """How many tests were called: several have this id if it lacks their parameters."""
        self.reports: list[str] = []
        """Why a test was not called, in words."""
        self.warnings: list[str] = []
        self._window = window

    def pytest_warning_recorded(self, warning_message: Any, when: str) -> None:
        if when == "runtest" and f"{os.sep}torch{os.sep}" not in warning_message.filename:
            self.warnings.append(f"{warning_message.category.__name__}: {warning_message.message}")

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and report.when != "call":
            self.reports.append(f"{report.when}: {report.longreprtext.splitlines()[-1]}")
        if report.skipped:
            self.reports.append("the test was skipped")

    @hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: Any) -> None:
        # torch is imported here, when the path is the program's.
        from pytest_graphbreak.repair.surroundings import seed

        seed()  # for weights that a fixture makes, of whatever scope

    @hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: Any) -> Iterator[None]:
        # The window keeps a failure to itself (``store_error``): what the test did is the question.
        with self._window():
            yield
        self.calls += 1


def _test(order: Plain, window: Callable[[], Any]) -> Plain:
    """Run one test with pytest, and measure its call phase."""
    import pytest

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
