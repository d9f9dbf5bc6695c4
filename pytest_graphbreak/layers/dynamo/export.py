"""The sensor for exports that are stopped. An export can not break, so it raises.

From torch 2.10 on ``torch.export`` traces without Dynamo's entry to a frame, and
a non-strict export never goes through Dynamo at all. So the function that all
exports go through is followed, and an exception that leaves it is noted with
its reason and its place. It reaches the test as it would have.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from pytest_graphbreak.layers.dynamo.events import Event, Line, Stopped, say
from pytest_graphbreak.layers.dynamo.hooks import Hook, OnImport, Patch

MODULE, FUNCTION = "torch.export._trace", "_export"
"""Imported by the first export; ``torch.export.export`` looks it up at each call (2.6 to 2.15)."""


class ExportSensor:
    """Notes among ``events`` what stopped an export; ``above`` gives the stack that called it."""

    def __init__(
        self,
        events: list[Event],
        above: Callable[[], tuple[Line, ...]],
        fell: Callable[[str, BaseException], None],
    ) -> None:
        self._events = events
        self._above = above
        self._fell = fell
        self._depth = threading.local()
        self._patch: Patch | None = None
        self._import: OnImport | None = None

    def attach(self) -> None:
        if MODULE in sys.modules:
            self._install()
        else:
            self._import = OnImport(MODULE, self._install)

    def detach(self) -> None:
        if self._import is not None:
            self._import.remove()
        if self._patch is not None:
            self._patch.remove()
        self._import = self._patch = None

    def _install(self) -> None:
        try:
            self._patch = Patch(sys.modules[MODULE], FUNCTION, self._export)
        except AttributeError as fault:
            self._fell("exports that are stopped", fault)

    def _export(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        depth = getattr(self._depth, "value", 0)
        self._depth.value = depth + 1
        try:
            return original(*args, **kwargs)
        except Exception as fault:
            if depth == 0:
                self._stopped(fault)
            raise
        finally:
            self._depth.value = depth

    def _stopped(self, fault: Exception) -> None:
        try:
            root = _root(fault)
            stack = getattr(root, "real_stack", None)
            traced = (
                tuple((frame.filename, frame.lineno or 0, frame.name) for frame in stack)
                if stack
                else _lines(fault.__traceback__)
            )
            self._events.append(Stopped(type(root).__name__, say(root), self._above(), traced))
        except Exception as error:
            self._fell("exports that are stopped", error)


def _root(fault: BaseException) -> BaseException:
    """The first of a chain of Dynamo's exceptions; the later ones are its consequences."""
    while hasattr(fault.__cause__, "real_stack"):
        assert fault.__cause__ is not None
        fault = fault.__cause__
    return fault


def _lines(trace: TracebackType | None) -> tuple[Line, ...]:
    found = []
    while trace is not None:
        code = trace.tb_frame.f_code
        found.append((code.co_filename, trace.tb_lineno, code.co_name))
        trace = trace.tb_next
    return tuple(found)
