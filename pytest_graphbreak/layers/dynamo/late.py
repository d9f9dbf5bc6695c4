"""Sensors of modules that torch may import only while a window is open.

There are four: DDP, which cuts a graph into gradient buckets, exports that are stopped, functions
that are captured as a whole, ahead of time, or loaded, and ``torch.compiler.set_stance``.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import CodeType, FrameType
from typing import Any, ClassVar, Final

from pytest_graphbreak.layers.base import NOTIFIER
from pytest_graphbreak.layers.dynamo import private as names
from pytest_graphbreak.layers.dynamo.events import (
    Attempt,
    Ended,
    Event,
    GivenUp,
    Made,
    Notes,
    Stance,
    Started,
    Stopped,
    has,
    say,
    stack_lines,
)
from pytest_graphbreak.layers.dynamo.executions import GraphRuns
from pytest_graphbreak.layers.dynamo.frames import owner, written_forward
from pytest_graphbreak.layers.dynamo.operations import NO_SHAPE, shape_of
from pytest_graphbreak.layers.dynamo.private import keep_out
from pytest_graphbreak.layers.hooks import Hook, LatePatch, caller, do_nothing, note_hook
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.stacks import first_line, of_traceback

_EXPORTS: Final = "exports that are stopped"
_BUCKETS: Final = "the buckets of DDP"
_STANCES: Final = "torch.compiler.set_stance"
_AHEAD: Final = "functions compiled ahead of time"


class LateSensors:
    """The sensors; ``runs`` counts runs of graphs, or is None.

    ``cannot_install`` is called where a sensor cannot be put in.
    """

    def __init__(
        self,
        notes: Notes,
        runs: GraphRuns | None,
        cannot_install: Callable[[names.Name, Exception], None],
    ) -> None:
        self._notes = notes
        self.runs = runs
        self._depth = threading.local()
        self._captured = 0
        self._unused: list[tuple[weakref.ref[Any], Made, Function]] = []
        hooks: dict[names.Name, Hook] = {
            names.AOT_LOAD: note_hook(_begin_to_load, partial(notes.sensor_failed, _AHEAD)),
            names.AOT_FUNCTION: self._ahead_of_time,
            names.EXPORT: self._export,
            names.BUCKETS: self._compile_bucket,
        }
        stances = note_hook(self._note_stance, partial(notes.sensor_failed, _STANCES), after=True)
        self._hooks = [
            *(
                LatePatch(name.module, name.chain, hook, partial(cannot_install, name))
                for name, hook in hooks.items()
            ),
            # Without the function stances are named without a place.
            LatePatch(*names.SET_STANCE, stances, do_nothing),
        ]

    def attach(self) -> None:
        for ours in (Notes.guard, self._note_stop, self._note_function):
            keep_out(ours)  # an export or a load may stand in a function that left the compiler
        for hook in self._hooks:
            hook.attach()

    def detach(self) -> None:
        for hook in reversed(self._hooks):
            hook.detach()

    # DDP cuts one captured graph and calls the backend for each part.
    #
    # Inside the forward pass of ``DistributedDataParallel`` Dynamo's backend is
    # ``DDPOptimizer``: it cuts the graph where DDP's gradient buckets end, and hands each
    # part to the user's backend by ``SubmodCompiler.compile_submod``
    # (torch/_dynamo/backends/distributed.py, 2.9 to 2.13). With one bucket nothing is cut.
    # Dynamo imports the module when it first compiles inside DDP.

    def _compile_bucket(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        """Handle ``compile_submod(self, input_mod, ...)``."""
        __tracebackhide__ = True
        shape = NO_SHAPE
        with self._notes.guard(_BUCKETS):
            shape = shape_of(args[1] if len(args) > 1 else kwargs["input_mod"])
        result = original(*args, **kwargs)
        self._notes.local.buckets.append(shape)
        return result

    # A function that is captured as a whole, by an export or ahead of time, has no frame. One that
    # is loaded (``torch.compiler.load_compiled_function``) has the one graph that was captured for
    # it. What is stored (``CompileArtifacts`` of torch/_dynamo/aot_compile.py, 2.9 to 2.15) has the
    # code of the function and no FX graph: how many operations that had is not known. The guards
    # are there from the compilation; a loaded function has none yet.

    def capture(self, root: Any) -> Attempt:
        """Return the attempt for a function that is captured. ``root`` is what Dynamo traces it by.

        Loads of it that were given up are noted: an engine loads what it compiled at an earlier
        start, finds that it is not what it can use, and compiles again (vLLM 0.32).
        """
        code, values = getattr(root, "f_code", None), getattr(root, "f_locals", {})
        attempt = self._attempt(code, values, caller())
        begin_function().name = attempt.id
        for unused in [*self._unused]:
            reference, graph, function = unused
            same = graph.attempt.code == attempt.code
            if same and reference() is None and not (self.runs and self.runs.has_run(graph)):
                function.given_up = True
                self._notes.events.append(GivenUp(graph))
                self._unused.remove(unused)
        return attempt

    def _attempt(
        self, code: CodeType | None, values: Mapping[str, Any], frame: FrameType | None
    ) -> Attempt:
        attempt = Attempt(f"capture/{self._captured}", outcome="compiled", is_capture=True)
        self._captured += 1
        attempt.above = self._notes.look_up(frame)[0]
        if code is not None:
            attempt.code = first_line(code)
            attempt.written = first_line(written_forward(code, values) or code)
            attempt.owner = owner(frame, values)
        self._notes.events.extend([Started(attempt), Ended(attempt)])
        return attempt

    def _ahead_of_time(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        """Handle ``AOTCompiledFunction(...)`` when its fields are set."""
        __tracebackhide__ = True
        loaded = False
        with self._notes.guard(_AHEAD):
            loaded = args[0]._artifacts.guard_manager is None
        result = original(*args, **kwargs)
        with self._notes.guard(_AHEAD):
            self._note_function(args[0], loaded)
        return result

    def _note_function(self, compiled: Any, loaded: bool) -> None:
        """Note a function compiled ahead of time, which was ``loaded`` or captured right before."""
        artifacts = compiled._artifacts
        graph = self._notes.local.latest_graph
        if loaded:
            frame = caller()  # the __init__ of a dataclass, which has no file
            attempt = self._attempt(artifacts.original_code, {}, frame and frame.f_back)
            attempt.graphs = attempt.calls = 1
            graph = Made(attempt, 0, cached="loaded")
            function = latest_function() or begin_function()
            function.name = attempt.id
            self._notes.events.append(graph)
            self._unused.append((weakref.ref(compiled), graph, function))
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

    def _export(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        depth = getattr(self._depth, "value", 0)
        self._depth.value = depth + 1
        try:
            return original(*args, **kwargs)
        except Exception as fault:
            if depth == 0:
                with self._notes.guard(_EXPORTS):
                    self._note_stop(fault)
            raise
        finally:
            self._depth.value = depth

    def _note_stop(self, fault: Exception) -> None:
        root = _root_cause(fault)
        stack = vars(root)["real_stack"] if has(root, "real_stack") else None
        traced = stack_lines(stack) if stack else of_traceback(sys.exc_info()[2])
        self._notes.events.append(
            Stopped(type(root).__name__, say(root), self._notes.above(), traced)
        )

    def _note_stance(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Handle ``_set_stance(stance)``, which was called."""
        if (stance := current_stance()) != _DEFAULT:
            self._notes.events.append(Stance(stance, self._notes.above()))


def _begin_to_load(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Handle ``AOTCompiledFunction.deserialize(data, ...)``, which is about to be called."""
    begin_function()


def _root_cause(fault: BaseException) -> BaseException:
    """Return the first of a chain of Dynamo's exceptions; the later ones are its consequences."""
    while (cause := fault.__cause__) is not None and has(cause, "real_stack"):
        fault = cause
    return fault


# Which function compiled ahead of time a thread compiles or loads, for the layers below Dynamo.
#
# ``torch.compile(...).aot_compile`` has no compile id while its backend runs, and neither has
# ``torch.compiler.load_compiled_function``: a graph below Dynamo that comes without one belongs to
# the function that this thread captured or began to load last, or else any thread. An engine may
# lower parts of it, or load them, after that call and in threads of its own (vLLM).


class Function:
    """A function that is captured or loaded; its ``name`` is that of its graph, once it has one.

    ``given_up``: it was loaded, never ran, and is compiled anew.
    """

    name = ""
    given_up = False


class _Latest(threading.local):
    """What was captured or began to load last: by this thread, and by ``anyone``."""

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


# Stances of the compiler: one other than the default compiles less.
#
# A stance that was set while nobody watched is known, and its place is not.

_DEFAULT: Final = "default"
_EFFECTS: Final = {
    "force_eager": "everything runs without the compiler",
    "eager_on_recompile": "what is not compiled yet runs without the compiler",
    "fail_on_recompile": "what would be compiled raises an error",
    "eager_then_compile": "a first call runs without the compiler",
}
"""The stances of torch 2.9 to 2.15 by which less is compiled, and how."""


def current_stance() -> str:
    """Return the stance that the compiler has now; the default if torch does not say."""
    stance = getattr(sys.modules.get(names.STANCE.module), names.STANCE.chain, None)
    return str(getattr(stance, "stance", _DEFAULT))


def stance_notes(events: Iterable[Event], before: str, places: Places) -> Iterator[str]:
    """Yield what is to be said of the stances of a window; ``before`` was the one at its begin.

    Each is named once, by its first line: a decorator sets its stance in each call.
    """
    if effect := _EFFECTS.get(before):
        yield f'the stance of torch.compiler was "{before}" before: {effect}'
    first: dict[str, Stance] = {}
    for event in events:
        if isinstance(event, Stance):
            first.setdefault(event.stance, event)
    for name, event in first.items():
        line = next((line for line in reversed(event.above) if places.is_user(line.file)), None)
        place = "" if line is None else " at {0.file}:{0.line}".format(places.frame(*line))
        if effect := _EFFECTS.get(name):
            yield f'torch.compiler.set_stance("{name}"){place}: {effect}'
