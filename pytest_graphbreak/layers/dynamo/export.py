"""The sensor for exports that are stopped. An export cannot break, so it raises.

From torch 2.10 on ``torch.export`` traces without Dynamo's entry to a frame, and
a non-strict export never goes through Dynamo at all. So the function that all
exports go through is followed, and an exception that leaves it is noted with
its reason and its place. It reaches the test as it would have.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any

from pytest_graphbreak.layers.dynamo.events import Stopped, say
from pytest_graphbreak.layers.dynamo.late import LateSensor
from pytest_graphbreak.layers.hooks import Hook
from pytest_graphbreak.model.stacks import Line


class ExportSensor(LateSensor):
    """Notes what stopped an export."""

    MODULE, FUNCTION = "torch.export._trace", "_export"
    """Imported by the first export; each ``torch.export.export`` looks it up (2.6 to 2.15)."""
    WHAT = "exports that are stopped"

    def __init__(self, *noting: Any) -> None:
        super().__init__(*noting)
        self._depth = threading.local()

    def _around(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
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
                tuple(Line(frame.filename, frame.lineno or 0, frame.name) for frame in stack)
                if stack
                else _lines(fault.__traceback__)
            )
            self._events.append(Stopped(type(root).__name__, say(root), self._above(), traced))
        except Exception as error:
            self._fell(error)


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
        found.append(Line(code.co_filename, trace.tb_lineno or 0, code.co_name))
        trace = trace.tb_next
    return tuple(found)
