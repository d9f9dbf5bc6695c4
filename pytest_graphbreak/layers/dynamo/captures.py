"""Functions that are captured as a whole: by an export, ahead of time, or loaded.

Such a function has no frame, and cannot break: an export that meets a break raises. One that is
loaded (``torch.compiler.load_compiled_function``) has the one graph that was captured for it. What
is stored (``CompileArtifacts`` of torch/_dynamo/aot_compile.py, 2.9 to 2.15) has the code of the
function and no FX graph: how many operations that had is not known.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Mapping
from functools import partial
from types import CodeType, FrameType
from typing import Any, ClassVar, Final, NamedTuple

from pytest_graphbreak.layers.dynamo import private as names
from pytest_graphbreak.layers.dynamo.events import (
    Attempt,
    Ended,
    GivenUp,
    Made,
    Started,
    Stopped,
)
from pytest_graphbreak.layers.dynamo.executions import GraphRuns
from pytest_graphbreak.layers.dynamo.frames import owner, written_forward
from pytest_graphbreak.layers.dynamo.messages import exception_text, has_own
from pytest_graphbreak.layers.dynamo.notes import Notes, stack_lines
from pytest_graphbreak.layers.dynamo.private import keep_out
from pytest_graphbreak.layers.hooks import Hook, caller, note_hook
from pytest_graphbreak.layers.notifier import NOTIFIER
from pytest_graphbreak.model.stacks import first_line, of_traceback

_AHEAD: Final = "functions compiled ahead of time"
_EXPORTS: Final = "exports that are stopped"


class Function:
    """A function that is captured or loaded; its ``name`` is that of its graph, once it has one.

    ``given_up``: it was loaded, never ran, and is compiled anew.
    """

    name = ""
    given_up = False


# Which function a thread compiles or loads, for the layers below Dynamo.
#
# ``torch.compile(...).aot_compile`` has no compile id while its backend runs, and neither has
# ``torch.compiler.load_compiled_function``: a graph below Dynamo that comes without one belongs to
# the function that this thread captured or began to load last, or else any thread. An engine may
# lower parts of it, or load them, after that call and in threads of its own (vLLM).


class _Latest(threading.local):
    """What was captured or began to load last: by this thread (``here``), and by ``anyone``.

    ``here`` is set on the object, which has attributes of its own in each thread; one that has set
    nothing reads the None of the class. ``anyone`` is set on the class, so all threads share it.
    """

    here: Function | None = None
    anyone: ClassVar[Function | None] = None


_LATEST: Final = _Latest()


def begin_function() -> Function:
    """Note that this thread begins to capture or to load a function."""
    _LATEST.here = _Latest.anyone = Function()
    return _LATEST.here


def latest_function() -> Function | None:
    """Return the function that this thread, or else any, captured or began to load last."""
    return _LATEST.here or _Latest.anyone


def forget_function() -> None:
    """Forget it: what comes next is no part of it."""
    _LATEST.here = _Latest.anyone = None


class _Load(NamedTuple):
    """A function that was loaded and may never run: the object, its graph, and the function."""

    compiled: weakref.ref[Any]
    graph: Made
    function: Function


class Captures:
    """The captures of a process; ``runs`` counts runs of graphs, or is None."""

    def __init__(self, notes: Notes) -> None:
        self.runs: GraphRuns | None = None
        self._notes = notes
        self._captured = 0
        """How many functions were captured or loaded: they are named by it, ``capture/0``."""
        self._loads: list[_Load] = []
        """The functions that were loaded, and not given up so far."""
        self._exports = threading.local()
        """Its ``depth``: how many exports this thread is in."""
        self.hooks: dict[names.Name, Hook] = {
            names.AOT_LOAD: note_hook(_begin_to_load, partial(notes.sensor_failed, _AHEAD)),
            names.AOT_FUNCTION: self._on_compiled_function,
            names.EXPORT: self._on_export,
        }

    def attach(self, runs: GraphRuns | None) -> None:
        # An export or a load may stand in a function that left the compiler, whose calls Dynamo
        # compiles. ``Patch`` marks the hooks alone, so that the original may be compiled: these are
        # what the hooks call.
        for ours in (self._note_function, self._note_stop, Notes.guard):
            keep_out(ours)
        self.runs = runs

    def capture(self, root: Any) -> Attempt:
        """Return the attempt for a function that is captured. ``root`` is what Dynamo traces it by.

        Loads of it that were given up are noted: an engine loads what it compiled at an earlier
        start, finds that it is not what it can use, and compiles again (vLLM 0.32). A load is given
        up if the same code is captured now, what was loaded is gone, and it never ran.
        """
        code, values = getattr(root, "f_code", None), getattr(root, "f_locals", {})
        attempt = self._attempt(code, values, caller())
        begin_function().name = attempt.id
        for load in [*self._loads]:
            is_same = load.graph.attempt.code == attempt.code
            is_gone = load.compiled() is None
            if is_same and is_gone and not self._has_run(load.graph):
                load.function.given_up = True
                self._notes.events.append(GivenUp(load.graph))
                self._loads.remove(load)
        return attempt

    def _has_run(self, graph: Made) -> bool:
        return self.runs is not None and self.runs.has_run(graph)

    def _attempt(
        self, code: CodeType | None, values: Mapping[str, Any], frame: FrameType | None
    ) -> Attempt:
        attempt = Attempt(f"capture/{self._captured}", outcome="compiled", is_capture=True)
        self._captured += 1
        attempt.above = self._notes.look_up(frame)[0]  # the stack, without the attempt on it
        if code is not None:
            attempt.code = first_line(code)
            attempt.written = first_line(written_forward(code, values) or code)
            attempt.owner = owner(frame, values)
        self._notes.events.extend([Started(attempt), Ended(attempt)])
        return attempt

    def _on_compiled_function(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        """Handle ``AOTCompiledFunction(...)`` when its fields are set."""
        __tracebackhide__ = True
        is_loaded = False
        with self._notes.guard(_AHEAD):
            # What was captured has the guards of its compilation; what is loaded, none yet.
            is_loaded = args[0]._artifacts.guard_manager is None
        result = original(*args, **kwargs)
        with self._notes.guard(_AHEAD):
            self._note_function(args[0], is_loaded)
        return result

    def _note_function(self, compiled: Any, is_loaded: bool) -> None:
        """Note a function compiled ahead of time, which was loaded, or captured right before."""
        artifacts = compiled._artifacts
        # Of one that was captured: this thread has just made its graph (``aot_compile_fullgraph``).
        graph = self._notes.thread.latest_graph
        if is_loaded:
            frame = caller()  # the __init__ of a dataclass, which has no file
            attempt = self._attempt(artifacts.original_code, {}, frame and frame.f_back)
            # For a captured function the call of its backend counts it (``sensors``).
            attempt.graphs = 1
            graph = Made(attempt, 0, cached="loaded")
            # AOT_LOAD has begun it: ``deserialize`` makes the object at its end, in this thread.
            function = latest_function() or begin_function()
            function.name = attempt.id
            self._notes.events.append(graph)
            self._loads.append(_Load(weakref.ref(compiled), graph, function))
            NOTIFIER.listener.on_event()
        if self.runs is not None:
            self.runs.add_ahead_of_time(compiled.fn, artifacts.backend_id, graph)

    # An export cannot break, so it raises.
    #
    # From torch 2.10 on ``torch.export`` traces without Dynamo's entry to a frame, and
    # a non-strict export never goes through Dynamo at all. So the function that all
    # exports go through is followed (the first one imports it, each looks it up; 2.9 to 2.15),
    # and an exception that leaves it is noted with its reason and its place. It reaches the test
    # as it would have.

    def _on_export(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        depth = getattr(self._exports, "depth", 0)
        self._exports.depth = depth + 1
        try:
            return original(*args, **kwargs)
        except Exception as fault:
            if depth == 0:  # noted once, by the outermost export
                with self._notes.guard(_EXPORTS):
                    self._note_stop(fault)
            raise
        finally:
            self._exports.depth = depth

    def _note_stop(self, fault: Exception) -> None:
        root = _root_cause(fault)
        stack = vars(root)["real_stack"] if has_own(root, "real_stack") else None
        traced = stack_lines(stack) if stack else of_traceback(sys.exc_info()[2])
        self._notes.events.append(
            Stopped(type(root).__name__, exception_text(root), self._notes.above(), traced)
        )


def _begin_to_load(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Handle ``AOTCompiledFunction.deserialize(data, ...)``, which is about to be called."""
    begin_function()


def _root_cause(fault: BaseException) -> BaseException:
    """Return the first of a chain of Dynamo's exceptions; the later ones are its consequences."""
    while (cause := fault.__cause__) is not None and has_own(cause, "real_stack"):
        fault = cause
    return fault
