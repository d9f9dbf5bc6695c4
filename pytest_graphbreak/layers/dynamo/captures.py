"""Functions that are captured as a whole: by an export, ahead of time, or loaded.

Such a function has no frame that Dynamo's hook came to, and cannot break: an export that meets a
break raises (``breaks``). It is an ``Attempt`` all the same, named ``capture/0``.
One that is loaded has the one graph that was captured for it. What is stored (``CompileArtifacts``
of torch/_dynamo/aot_compile.py, 2.9 to 2.15) has the code of the function and no FX graph: how many
operations that had is not known.

What torch does, and where we stand in it::

    torch.compile(f).aot_compile(...)            torch.compiler.load_compiled_function(...)
      the backend is called     -> capture         AOTCompiledFunction.deserialize -> _on_load
      AOTCompiledFunction(...)  -> _on_init          AOTCompiledFunction(...)      -> _on_init

``sensors`` makes a ``Captures``, sets its ``runs``, puts its ``hooks`` in, and calls ``capture``
where a backend made a graph without a frame; an export has only that.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

from pytest_graphbreak.layers.dynamo import private as names
from pytest_graphbreak.layers.dynamo.events import Attempt, Ended, GivenUp, Made, Started
from pytest_graphbreak.layers.dynamo.executions import GraphRuns
from pytest_graphbreak.layers.dynamo.frames import owner, written_forward
from pytest_graphbreak.layers.dynamo.notes import Notes
from pytest_graphbreak.layers.hooks import Hook, caller
from pytest_graphbreak.layers.notifier import NOTIFIER
from pytest_graphbreak.model.stacks import first_line

_AHEAD: Final = "functions compiled ahead of time"


class Function:
    """A function that is captured or loaded; its ``name`` is that of its graph, once it has one.

    ``given_up``: it was loaded, never ran, and is compiled anew.
    """

    name = ""
    given_up = False


class _LatestFunction:
    """The function that was captured or began to load last, for the layers below Dynamo.

    There is no compile id while the backend of ``aot_compile`` runs, or a function is loaded: a
    graph below Dynamo that comes without one belongs to the function that its thread captured or
    began to load last, or else any thread. An engine may lower parts of a function, or load them,
    after that call and in threads of its own (vLLM).
    """

    def __init__(self) -> None:
        self._of_thread = threading.local()
        """Its ``function``: that of each thread, where it has begun one."""
        self._of_any: Function | None = None

    def begin(self) -> Function:
        """Note that this thread begins to capture or to load a function."""
        function = Function()
        self._of_thread.function = self._of_any = function
        return function

    def get(self) -> Function | None:
        function: Function | None = getattr(self._of_thread, "function", None)
        return function or self._of_any

    def forget(self) -> None:
        """Forget those of all threads: what comes next is no part of them."""
        self._of_thread = threading.local()
        self._of_any = None


LATEST: Final = _LatestFunction()


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
        self._loading = threading.local()
        """Its ``function``: the one that this thread is loading, as a ``Function``."""
        self.hooks: dict[names.Name, Hook] = {
            names.AOT_LOAD: self._on_load,
            names.AOT_FUNCTION: self._on_init,
        }
        self.ours = (self._note_function, LATEST.begin)
        """What the hooks call, and Dynamo is to leave alone."""

    def capture(self, root: Any) -> Attempt:
        """Return the attempt for a function that is captured. ``root`` is what Dynamo traces it by.

        Loads of it that were given up are noted: an engine loads what it compiled at an earlier
        start, finds that it is not what it can use, and compiles again (vLLM 0.32).
        """
        code, values = getattr(root, "f_code", None), getattr(root, "f_locals", {})
        attempt = self._attempt(code, values, caller())
        LATEST.begin().name = attempt.id
        for load in [*self._loads]:
            if load.graph.attempt.code == attempt.code and self._can_never_run(load):
                load.function.given_up = True
                self._notes.events.append(GivenUp(load.graph))
                self._loads.remove(load)
        return attempt

    def _can_never_run(self, load: _Load) -> bool:
        """Return whether a function that was loaded is gone, and did not run before."""
        has_run = self.runs is not None and self.runs.has_run(load.graph)
        return load.compiled() is None and not has_run

    def _attempt(
        self, code: CodeType | None, values: Mapping[str, Any], frame: FrameType | None
    ) -> Attempt:
        attempt = Attempt(f"capture/{self._captured}", outcome="compiled", is_capture=True)
        self._captured += 1
        # Without a parent: a capture is an entry, whoever calls it.
        attempt.above, _ = self._notes.look_up(frame)
        if code is not None:
            attempt.code = first_line(code)
            attempt.written = first_line(written_forward(code, values) or code)
            attempt.owner = owner(frame, values)
        self._notes.events.extend([Started(attempt), Ended(attempt)])
        return attempt

    def _on_load(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        """Handle ``AOTCompiledFunction.deserialize(data, ...)``."""
        __tracebackhide__ = True
        with self._notes.guard(_AHEAD):
            self._loading.function = LATEST.begin()
        try:
            return original(*args, **kwargs)
        finally:
            self._loading.function = None

    def _on_init(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
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
        # Of one that was captured: this thread has just made its graph (``aot_compile_fullgraph``),
        # and the call of its backend counted that (``sensors``).
        graph = self._notes.thread.latest_graph
        if is_loaded:
            graph = self._note_load(compiled)
        if self.runs is not None:
            self.runs.add_ahead_of_time(compiled.fn, compiled._artifacts.backend_id, graph)

    def _note_load(self, compiled: Any) -> Made:
        """Note the graph of a function that was loaded."""
        frame = caller()  # the __init__ of a dataclass, which has no file
        attempt = self._attempt(compiled._artifacts.original_code, {}, frame and frame.f_back)
        attempt.graphs = 1
        graph = Made(attempt, 0, cached="loaded")
        self._notes.events.append(graph)
        # Where nothing was deserialized, it is not the one that was captured or loaded before.
        function = getattr(self._loading, "function", None) or LATEST.begin()
        function.name = attempt.id
        self._loads.append(_Load(weakref.ref(compiled), graph, function))
        NOTIFIER.listener.on_event()
        return graph
