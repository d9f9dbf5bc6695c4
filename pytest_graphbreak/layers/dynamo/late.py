"""Sensors of modules that torch may import late, while a window is open: by ``LatePatch``.

They are for DDP, which cuts a graph into gradient buckets, exports that are stopped, functions
compiled ahead of time (``captures``), and ``torch.compiler.set_stance``.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final

from pytest_graphbreak.layers.dynamo import private as names
from pytest_graphbreak.layers.dynamo.captures import Captures
from pytest_graphbreak.layers.dynamo.events import (
    Event,
    Notes,
    Stance,
    Stopped,
    has,
    say,
    stack_lines,
)
from pytest_graphbreak.layers.dynamo.operations import NO_SHAPE, shape_of
from pytest_graphbreak.layers.dynamo.private import keep_out
from pytest_graphbreak.layers.hooks import Hook, LatePatch, do_nothing, note_hook
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.stacks import of_traceback

_EXPORTS: Final = "exports that are stopped"
_BUCKETS: Final = "the buckets of DDP"
_STANCES: Final = "torch.compiler.set_stance"


class LateSensors:
    """The sensors. ``cannot_install`` is called where one cannot be put in."""

    def __init__(
        self,
        notes: Notes,
        captures: Captures,
        cannot_install: Callable[[names.Name, Exception], None],
    ) -> None:
        self._notes = notes
        self._depth = threading.local()
        """How many exports this thread is in."""
        hooks: dict[names.Name, Hook] = {
            **captures.hooks,
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
        for ours in (Notes.guard, self._note_stop):
            keep_out(ours)  # an export may stand in a function that left the compiler
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
            if depth == 0:  # noted once, by the outermost export
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
        line = next((line for line in reversed(event.above) if places.is_user(line.file)), None)
        place = "" if line is None else " at {0.file}:{0.line}".format(places.frame(*line))
        if effect := _EFFECTS.get(name):
            yield f'torch.compiler.set_stance("{name}"){place}: {effect}'
