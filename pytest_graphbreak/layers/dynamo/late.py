"""Sensors of modules that torch may import only while a window is open.

There are four: DDP, which cuts a graph into gradient buckets, exports that are stopped, functions
that are compiled ahead of time or loaded, and ``torch.compiler.set_stance``.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final

from pytest_graphbreak.layers.dynamo import private as names
from pytest_graphbreak.layers.dynamo.ahead import begin
from pytest_graphbreak.layers.dynamo.events import (
    NO_SHAPE,
    Event,
    Local,
    Stance,
    Stopped,
    has,
    say,
    shape_of,
    stack_lines,
)
from pytest_graphbreak.layers.faults import guard
from pytest_graphbreak.layers.hooks import Hook, LatePatch, do_nothing, note_hook
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.stacks import Line, of_traceback

_EXPORTS: Final = "exports that are stopped"
_BUCKETS: Final = "the buckets of DDP"
_STANCES: Final = "torch.compiler.set_stance"
_AHEAD: Final = "functions compiled ahead of time"


class LateSensors:
    """Notes among ``events`` what the functions do; ``above`` gives the stack that called one.

    ``note_loaded`` is called with each function that is compiled ahead of time, and whether it was
    loaded.

    Where a sensor itself fails, ``sensor_failed`` is called with what it is for;
    ``cannot_install`` where it cannot be put in.
    """

    def __init__(
        self,
        events: list[Event],
        local: Local,
        above: Callable[[], tuple[Line, ...]],
        note_loaded: Callable[[Any, bool], None],
        sensor_failed: Callable[[str, BaseException], None],
        cannot_install: Callable[[names.Name, Exception], None],
    ) -> None:
        self._events = events
        self._local = local
        self._above = above
        self._note_loaded = note_loaded
        self._sensor_failed = sensor_failed
        self._cannot_install = cannot_install
        self._depth = threading.local()

    def hooks(self) -> tuple[LatePatch, ...]:
        stances, ahead = (partial(self._sensor_failed, what) for what in (_STANCES, _AHEAD))
        hooks: dict[names.Name, Hook] = {
            names.AOT_LOAD: note_hook(_begin_to_load, ahead),
            names.AOT_FUNCTION: self._ahead_of_time,
            names.EXPORT: self._export,
            names.BUCKETS: self._compile_bucket,
        }
        return (
            *(
                LatePatch(name.module, name.chain, hook, partial(self._cannot_install, name))
                for name, hook in hooks.items()
            ),
            # Without the function stances are named without a place.
            LatePatch(
                *names.SET_STANCE, note_hook(self._note_stance, stances, after=True), do_nothing
            ),
        )

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
        with guard(partial(self._sensor_failed, _BUCKETS)):
            shape = shape_of(args[1] if len(args) > 1 else kwargs["input_mod"])
        result = original(*args, **kwargs)
        self._local.buckets.append(shape)
        return result

    # A function compiled ahead of time has its guards from the compilation; one that is loaded has
    # none yet (torch/_dynamo/aot_compile.py, 2.9 to 2.15).

    def _ahead_of_time(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        """Handle ``AOTCompiledFunction(...)`` when its fields are set."""
        __tracebackhide__ = True
        loaded = False
        with guard(partial(self._sensor_failed, _AHEAD)):
            loaded = args[0]._artifacts.guard_manager is None
        result = original(*args, **kwargs)
        with guard(partial(self._sensor_failed, _AHEAD)):
            self._note_loaded(args[0], loaded)
        return result

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
                with guard(partial(self._sensor_failed, _EXPORTS)):
                    self._note_stop(fault)
            raise
        finally:
            self._depth.value = depth

    def _note_stop(self, fault: Exception) -> None:
        root = _root_cause(fault)
        stack = vars(root)["real_stack"] if has(root, "real_stack") else None
        traced = stack_lines(stack) if stack else of_traceback(sys.exc_info()[2])
        self._events.append(Stopped(type(root).__name__, say(root), self._above(), traced))

    def _note_stance(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Handle ``_set_stance(stance)``, which was called."""
        if (stance := current_stance()) != _DEFAULT:
            self._events.append(Stance(stance, self._above()))


def _begin_to_load(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Handle ``AOTCompiledFunction.deserialize(data, ...)``, which is about to be called."""
    begin()


def _root_cause(fault: BaseException) -> BaseException:
    """Return the first of a chain of Dynamo's exceptions; the later ones are its consequences."""
    while (cause := fault.__cause__) is not None and has(cause, "real_stack"):
        fault = cause
    return fault


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
        if effect := _EFFECTS.get(name):
            yield f'torch.compiler.set_stance("{name}"){_place_words(event, places)}: {effect}'


def _place_words(event: Stance, places: Places) -> str:
    """Return the nearest line of the user's that set a stance."""
    for line in reversed(event.above):
        if places.is_user(line.file):
            place = places.frame(*line)
            return f" at {place.file}:{place.line}"
    return ""
