"""Sensors of modules that torch may import only while a window is open.

There are four: DDP, which cuts a graph into gradient buckets; exports that are stopped; packages of
precompiled code; modules of torch's own that are compiled in place.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Final

from pytest_graphbreak.layers.dynamo import private as names
from pytest_graphbreak.layers.dynamo.events import (
    NO_SHAPE,
    Attempt,
    Ended,
    Event,
    InPlace,
    Local,
    Made,
    Started,
    Stopped,
    say,
    shape_of,
)
from pytest_graphbreak.layers.hooks import Hook, LatePatch
from pytest_graphbreak.model.places import is_resume
from pytest_graphbreak.model.stacks import Line, first_line, of_traceback


class LateSensor(LatePatch):
    """Notes among ``events`` what a function does; ``above`` gives the stack that called it.

    Where the sensor itself fails, ``sensor_failed`` is called with ``WHAT``, which names what
    it is for.
    """

    MODULE: ClassVar[str]
    FUNCTION: ClassVar[str]
    WHAT: ClassVar[str]

    def __init__(
        self,
        events: list[Event],
        above: Callable[[], tuple[Line, ...]],
        sensor_failed: Callable[[str, BaseException], None],
    ) -> None:
        self._events = events
        self._above = above
        self._sensor_failed = partial(sensor_failed, self.WHAT)
        super().__init__(self.MODULE, self.FUNCTION, self._around, self._gone)

    def _around(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def _gone(self, fault: AttributeError) -> None:
        """Report that the function does not exist."""
        self._sensor_failed(fault)


# The sensor for DDP, which cuts one captured graph and calls the backend for each part.
#
# Inside the forward pass of ``DistributedDataParallel`` Dynamo's backend is
# ``DDPOptimizer``: it cuts the graph where DDP's gradient buckets end, and hands each
# part to the user's backend by ``SubmodCompiler.compile_submod``
# (torch/_dynamo/backends/distributed.py, 2.6 to 2.13). With one bucket nothing is cut.


class BucketSensor(LateSensor):
    """Notes in ``local.buckets`` what DDP hands to the backend."""

    MODULE, FUNCTION = names.BUCKETS
    """Dynamo imports the module when it first compiles inside DDP."""
    WHAT = "the buckets of DDP"

    def __init__(self, local: Local, *noting: Any) -> None:
        super().__init__(*noting)
        self._local = local

    def _around(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        """Handle ``compile_submod(self, input_mod, ...)``."""
        __tracebackhide__ = True
        shape = NO_SHAPE
        try:
            shape = shape_of(args[1] if len(args) > 1 else kwargs["input_mod"])
        except Exception as fault:
            self._sensor_failed(fault)
        result = original(*args, **kwargs)
        self._local.buckets.append(shape)
        return result


# The sensor for exports that are stopped. An export cannot break, so it raises.
#
# From torch 2.10 on ``torch.export`` traces without Dynamo's entry to a frame, and
# a non-strict export never goes through Dynamo at all. So the function that all
# exports go through is followed, and an exception that leaves it is noted with
# its reason and its place. It reaches the test as it would have.


class ExportSensor(LateSensor):
    """Notes what stopped an export."""

    MODULE, FUNCTION = names.EXPORT
    """The first export imports it; each ``torch.export.export`` looks it up (2.6 to 2.15)."""
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
            root = _root_cause(fault)
            stack = getattr(root, "real_stack", None)
            traced = (
                tuple(Line(frame.filename, frame.lineno or 0, frame.name) for frame in stack)
                if stack
                else of_traceback(fault.__traceback__)
            )
            self._events.append(Stopped(type(root).__name__, say(root), self._above(), traced))
        except Exception as error:
            self._sensor_failed(error)


class ModuleSensor(LateSensor):
    """Notes ``nn.Linear(...).compile()``, which compiles nothing up to 2.14.

    It hands ``Module._call_impl`` to Dynamo, which skips the frames of torch's own modules.
    """

    MODULE, FUNCTION = names.IN_PLACE
    """Each ``torch.compile(function)`` calls it, after its own imports (2.6 to 2.15)."""
    WHAT = "modules that are compiled in place"

    def _around(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        """Handle ``__call__(self, fn)``."""
        __tracebackhide__ = True
        try:
            function: Any = args[1] if len(args) > 1 else kwargs.get("fn")
            kind = type(getattr(function, "__self__", None))
            if kind.__module__.startswith("torch.nn.") and function.__name__ == "_call_impl":
                self._events.append(InPlace(kind.__name__, self._above()))
        except Exception as fault:
            self._sensor_failed(fault)
        return original(*args, **kwargs)


def _root_cause(fault: BaseException) -> BaseException:
    """Return the first of a chain of Dynamo's exceptions; the later ones are its consequences."""
    while hasattr(fault.__cause__, "real_stack"):
        assert fault.__cause__ is not None
        fault = fault.__cause__
    return fault


# Packages of precompiled code: Dynamo's own cache on disk (``TORCH_CACHING_PRECOMPILE=1``).
#
# A package holds what Dynamo made of a function, guards and all: where one is loaded, Dynamo
# attempts nothing, and ``torch._dynamo.reset()`` does not take it out. So what a window loads is
# counted, and what was loaded before it, by a module or by a fixture, is an error: those graphs
# are not seen. A package holds no reasons of breaks.
#
# Sources: ``CompilePackage.install`` and ``DiskDynamoCache.load`` of torch/_dynamo/package.py,
# which ``torch.compile`` calls in ``_TorchDynamoContext.__call__``; torch 2.9 and 2.13. Where the
# names are not there nothing can be loaded.

PACKAGE_BEFORE_TEST: Final = (
    "dynamo: a package of precompiled code was loaded before the test began "
    "(TORCH_CACHING_PRECOMPILE), so its graphs cannot be counted: call torch.compile in the test, "
    "or run the gate with TORCH_CACHING_PRECOMPILE=0"
)


class PackageLoads:
    """The number of packages this process loaded, by Dynamo's own count, and of those unwatched."""

    def __init__(self) -> None:
        self._counted = 0
        self._unwatched = 0

    def begin(self, counters: Any) -> bool:
        """Open a window, and return whether a package was ever loaded while none was open."""
        self._unwatched += max(0, self._since(counters))
        return self._unwatched > 0

    def end(self, counters: Any) -> None:
        """Close a window: what was loaded up to now was seen."""
        self._since(counters)

    def _since(self, counters: Any) -> int:
        # counters is a defaultdict: indexing it would leave an entry behind.
        box = dict.get(counters, "dynamo_cache") if counters is not None else None
        now = 0 if box is None else int(box.get("dynamo_cache_hit", 0))
        before, self._counted = self._counted, now
        return now - before


PACKAGE_LOADS: Final = PackageLoads()


def package_loaded(events: Sequence[Event]) -> bool:
    """Return whether a package was loaded among these events."""
    return any(isinstance(event, Made) and event.attempt.packaged for event in events)


class PackageSensor(LateSensor):
    """Notes the graphs that packages bring."""

    MODULE, FUNCTION = names.PACKAGE
    WHAT = "packages of precompiled code"

    def _gone(self, fault: AttributeError) -> None:
        """Report that the name does not exist, unless packages are off: then nothing is lost."""
        if getattr(sys.modules.get("torch._dynamo.config"), "caching_precompile", False):
            self._sensor_failed(fault)

    def _around(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        """Handle ``install(self, backends)``."""
        __tracebackhide__ = True
        first = names.frames()
        result = original(*args, **kwargs)
        try:
            self._brought(args[0], first)
        except Exception as fault:
            self._sensor_failed(fault)
        return result

    def _brought(self, package: Any, first: int) -> None:
        """Note the graphs of each function: one for each backend it calls, the first an entry."""
        above = self._above()
        main: Attempt | None = None
        # CompilePackage._codes: code object to its entry (torch/_dynamo/package.py of 2.13).
        for frame, (code, entry) in enumerate(package._codes.items()):
            if entry.bypassed:
                continue
            for number, _ in enumerate(entry.backend_ids):
                attempt = Attempt(f"{first + frame}/{number}", outcome="compiled", packaged=True)
                attempt.code = attempt.written = first_line(code)
                attempt.above = above
                attempt.parent = main if is_resume(code.co_name) or main is not None else None
                attempt.guards = () if number else None
                attempt.graphs = attempt.calls = 1
                main = main or attempt
                made = Made(attempt, 0, cached="loaded")
                self._events += [Started(attempt), made, Ended(attempt)]
