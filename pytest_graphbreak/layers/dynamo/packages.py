"""Packages of precompiled code: Dynamo's own cache on disk (``TORCH_CACHING_PRECOMPILE=1``).

A package holds what Dynamo made of a function, guards and all: where one is loaded, Dynamo attempts
nothing, and ``torch._dynamo.reset()`` does not take it out. So what a window loads is counted, and
what was loaded before it, by a module or by a fixture, is an error: those graphs are not seen.
A package holds no reasons of breaks.

Sources: ``CompilePackage.install`` and ``DiskDynamoCache.load`` of torch/_dynamo/package.py, which
``torch.compile`` calls in ``_TorchDynamoContext.__call__``; torch 2.9 and 2.13. Where the names
are not there nothing can be loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

from pytest_graphbreak.layers.dynamo.events import Attempt, Ended, Event, Made, Started
from pytest_graphbreak.layers.dynamo.late import LateSensor
from pytest_graphbreak.layers.hooks import Hook
from pytest_graphbreak.model.places import is_resume
from pytest_graphbreak.model.stacks import Line

BEFORE: Final = (
    "dynamo: a package of precompiled code was loaded before the test began "
    "(TORCH_CACHING_PRECOMPILE), so its graphs cannot be counted: call torch.compile in the test, "
    "or run the gate with TORCH_CACHING_PRECOMPILE=0"
)


class Loads:
    """How many packages this process loaded, by Dynamo's own count, and how many unwatched."""

    def __init__(self) -> None:
        self._counted = 0
        self._unwatched = 0

    def begin(self, counters: Any) -> bool:
        """A window opens. Whether a package was loaded while none was open, then or earlier."""
        self._unwatched += max(0, self._since(counters))
        return self._unwatched > 0

    def end(self, counters: Any) -> None:
        """A window closes: what was loaded up to now was seen."""
        self._since(counters)

    def _since(self, counters: Any) -> int:
        # counters is a defaultdict: indexing it would leave an entry behind.
        box = dict.get(counters, "dynamo_cache") if counters is not None else None
        now = 0 if box is None else int(box.get("dynamo_cache_hit", 0))
        before, self._counted = self._counted, now
        return now - before


LOADS: Final = Loads()


def brings(events: Sequence[Event]) -> bool:
    """Whether a package was loaded among these events."""
    return any(isinstance(event, Made) and event.attempt.packaged for event in events)


class PackageSensor(LateSensor):
    """Notes the graphs that packages bring."""

    MODULE = "torch._dynamo.package"
    FUNCTION = "CompilePackage.install"
    WHAT = "packages of precompiled code"

    def _gone(self, fault: AttributeError) -> None:
        """The name is not there: nothing is lost where packages are off."""
        if getattr(sys.modules.get("torch._dynamo.config"), "caching_precompile", False):
            self._fell(fault)

    def _around(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        """``install(self, backends)``"""
        __tracebackhide__ = True
        first = _frames()
        result = original(*args, **kwargs)
        try:
            self._brought(args[0], first)
        except Exception as fault:
            self._fell(fault)
        return result

    def _brought(self, package: Any, first: int) -> None:
        """The graphs of each function: one for each backend that it calls, the first an entry."""
        above = self._above()
        main: Attempt | None = None
        for frame, (code, entry) in enumerate(package._codes.items()):
            if entry.bypassed:
                continue
            for number, _ in enumerate(entry.backend_ids):
                attempt = Attempt(f"{first + frame}/{number}", outcome="compiled", packaged=True)
                attempt.code = attempt.written = Line(
                    code.co_filename, code.co_firstlineno, code.co_name
                )
                attempt.above = above
                attempt.parent = main if is_resume(code.co_name) or main is not None else None
                attempt.guards = () if number else None
                attempt.graphs = attempt.calls = 1
                main = main or attempt
                made = Made(attempt, 0, cached="loaded")
                self._events += [Started(attempt), made, Ended(attempt)]


def _frames() -> int:
    """How many frames Dynamo has numbered so far."""
    return int(getattr(sys.modules.get("torch._dynamo.convert_frame"), "FRAME_COUNTER", 0))
