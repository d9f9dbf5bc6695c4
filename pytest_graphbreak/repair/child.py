"""Runs a script or a test in the process that a ``Bench`` has started for an order.

``work`` is called first, with a ``TargetOrder`` as plain data. It prepares the process, and hands
the order to the module that is its ``kind`` (``trial`` has a table of these), together with ``go``.
That module calls ``go`` with a window, a context manager: the target runs, with the window around
what counts, the whole script or the call phase of the test. What the target raises is in what
``go`` returns, as parts of an answer.

In this order: files that are read in the place of others, a script, a test, what the target raises.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import linecache
import os
import sys
import traceback
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
from pluggy import HookimplMarker

from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.model.items import Frame
from pytest_graphbreak.model.places import Places, places
from pytest_graphbreak.repair.sources import read
from pytest_graphbreak.repair.trial import TargetOrder
from pytest_graphbreak.text.errors import error_words

hookimpl: Final = HookimplMarker("pytest")
"""``pytest.hookimpl``, without pytest, which a script does not need."""
_replaced: Final[dict[str, str]] = {}
"""Files that are imported or run, and others that are read in their place."""
_KINDS: Final = ("measure", "border", "cut", "exporting")
"""The modules that carry out an order, each by its ``work(order, go)``."""
Window = Callable[[], AbstractContextManager[None]]
Go = Callable[[Window], Plain]
"""Runs the target of the order, with a window around what counts, and returns what it raised."""


def work(ordered: Plain) -> Plain:
    """Carry out a ``TargetOrder``, and return the answer."""
    order = msgspec.convert(ordered, TargetOrder)  # without the fields that its kind adds
    os.chdir(order.cwd)
    sys.argv = [order.path, *order.arguments]
    sys.path[0] = str(Path(order.path).resolve().parent)  # as Python sets it for a script
    _replaced.update({os.path.realpath(old): new for old, new in order.replaced.items()})
    if _replaced:
        _replace()
    assert order.kind in _KINDS  # it is imported by this name
    # Only now, when the path is the program's: these modules import torch.
    module = importlib.import_module(f"pytest_graphbreak.repair.{order.kind}")
    run = _test if order.test else _script
    answer: Plain = module.work(ordered, lambda window: run(order, window))
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


def _script(order: TargetOrder, window: Window) -> Plain:
    """Run a file as Python does, as ``__main__``, in the window."""
    module = types.ModuleType("__main__")
    module.__file__ = order.path
    module.__builtins__ = __builtins__  # type: ignore[attr-defined]
    sys.modules["__main__"] = module
    ended: Plain = {}
    with window(), store_error(ended):
        code = compile(_contents(order.path), order.path, "exec", dont_inherit=True)
        exec(code, module.__dict__)
    return ended


class _Watch:
    """A plugin of pytest that opens the window in the call phase, and notes why there was none."""

    def __init__(self, window: Window) -> None:
        self.ended: Plain = {}
        """What the test raised."""
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
        # A test that fails is a passed one for pytest: its failure is in the answer.
        with self._window(), store_error(self.ended):
            yield
        self.calls += 1


def _test(order: TargetOrder, window: Window) -> Plain:
    """Run one test with pytest, its call phase in the window."""
    import pytest

    watch = _Watch(window)
    # As if the file were run: a file that ``fix`` writes does nothing if it is imported.
    program = sys.modules["__main__"] = types.ModuleType("__main__")
    program.__file__ = os.path.abspath(order.path)
    sys.path.append(os.getcwd())  # last on the path, for modules only found there
    options = ["-q", "-s", "-p", "no:cacheprovider", "-o", "addopts=", "-o", "graph_budget=false"]
    options.append("--assert=plain")  # else pytest reads the file itself, not what replaces it
    code = pytest.main([*options, f"{order.path}::{order.test}"], plugins=[watch])
    if watch.calls == 1:
        return {**watch.ended, "warnings": watch.warnings}
    why = "; ".join(watch.reports) or f"pytest ended with {int(code)}"
    if watch.calls > 1:
        why = f"{watch.calls} tests have this id; give one of them, with its [parameters]"
    return {**watch.ended, "error": why}


# What the target raises.

_FAKE: Final = "with fake tensors: "
"""Dynamo's words before what it ran, as in ``get_fake_value`` of ``_dynamo/utils.py``, torch 2.13.

After it comes ``: got RuntimeError('...')``, the operator's own error."""


@contextmanager
def store_error(answer: dict[str, Any]) -> Iterator[None]:
    """Store what the program raises in ``answer``, in words and with its ``stack``.

    An interrupt goes on. A test that exceeds its budget does what is expected of it here.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise
    except SystemExit as stop:
        if stop.code not in (None, 0):
            answer["error"] = f"the script ended with {stop.code}"
    except BaseException as error:  # pytest's outcomes are not Exceptions
        if type(error).__name__ != "GraphBudgetFailure":
            frames = user_frames(error, places(Path.cwd()))
            stack = [frame.to_dict() for frame in frames]
            answer.update(error=words_of(error), stack=stack)


def user_frames(error: BaseException, namer: Places) -> tuple[Frame, ...]:
    """Return the user's frames that led to an error, the outermost first.

    Dynamo's errors hold the frames that it was tracing (``real_stack`` of ``_dynamo/exc.py``).
    """
    called = [*_user(traceback.extract_tb(error.__traceback__), namer)]
    traced = [*_user(getattr(error, "real_stack", None) or (), namer)]
    return (*called, *(frame for frame in traced if frame not in called))


def _user(lines: Iterable[traceback.FrameSummary], namer: Places) -> Iterator[Frame]:
    return (
        namer.frame(line.filename, line.lineno or 0, line.name, line.line)
        for line in lines
        if namer.is_user(line.filename)
    )


def words_of(error: BaseException) -> str:
    """Return an error in words: that of an operator, where Dynamo wraps it in its own."""
    return _operator_error(str(error)) or error_words(error)


def _operator_error(text: str) -> str:
    """Return the operator's own error in that of Dynamo, or "" if it has none.

    ``RuntimeError: a and b`` of ``... with fake tensors: got RuntimeError('a and b')``.
    """
    _, _, ran = text.partition(_FAKE)
    name, _, text = ran.partition(": got ")[2].partition("\n")[0].partition("(")
    return f"{name}: {text[1:-2]}" if name.isidentifier() and text[-2:] in ("')", '")') else ""
