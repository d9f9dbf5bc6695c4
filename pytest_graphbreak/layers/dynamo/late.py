"""Sensors of modules that torch may import only while a window is open.

There are three: DDP, which cuts a graph into gradient buckets, exports that are stopped, and
``torch.compiler.set_stance``.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, ClassVar, Final

from pytest_graphbreak.layers.dynamo import private as names
from pytest_graphbreak.layers.dynamo.events import (
    NO_SHAPE,
    Event,
    Local,
    Stance,
    Stopped,
    say,
    shape_of,
)
from pytest_graphbreak.layers.hooks import Hook, LatePatch
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.stacks import Line, of_traceback


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
        super().__init__(self.MODULE, self.FUNCTION, self._watch_call, self._on_missing)

    def _watch_call(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def _on_missing(self, fault: Exception) -> None:
        """Report that the function does not exist."""
        self._sensor_failed(fault)


# The sensor for DDP, which cuts one captured graph and calls the backend for each part.
#
# Inside the forward pass of ``DistributedDataParallel`` Dynamo's backend is
# ``DDPOptimizer``: it cuts the graph where DDP's gradient buckets end, and hands each
# part to the user's backend by ``SubmodCompiler.compile_submod``
# (torch/_dynamo/backends/distributed.py, 2.9 to 2.13). With one bucket nothing is cut.


class BucketSensor(LateSensor):
    """Notes in ``local.buckets`` what DDP hands to the backend."""

    MODULE, FUNCTION = names.BUCKETS
    """Dynamo imports the module when it first compiles inside DDP."""
    WHAT = "the buckets of DDP"

    def __init__(self, local: Local, *sensor: Any) -> None:
        super().__init__(*sensor)
        self._local = local

    def _watch_call(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
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
    """The first export imports it; each ``torch.export.export`` looks it up (2.9 to 2.15)."""
    WHAT = "exports that are stopped"

    def __init__(self, *sensor: Any) -> None:
        super().__init__(*sensor)
        self._depth = threading.local()

    def _watch_call(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        depth = getattr(self._depth, "value", 0)
        self._depth.value = depth + 1
        try:
            return original(*args, **kwargs)
        except Exception as fault:
            if depth == 0:
                self._note_stop(fault)
            raise
        finally:
            self._depth.value = depth

    def _note_stop(self, fault: Exception) -> None:
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


def _root_cause(fault: BaseException) -> BaseException:
    """Return the first of a chain of Dynamo's exceptions; the later ones are its consequences."""
    while hasattr(fault.__cause__, "real_stack"):
        assert fault.__cause__ is not None
        fault = fault.__cause__
    return fault


# The sensor for ``torch.compiler.set_stance``: a stance other than the default compiles less.
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


class StanceSensor(LateSensor):
    """Notes the stances that are set, with the stack that set them."""

    MODULE, FUNCTION = names.SET_STANCE
    WHAT = "torch.compiler.set_stance"

    def _watch_call(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        """Handle ``_set_stance(stance)``."""
        __tracebackhide__ = True
        result = original(*args, **kwargs)
        try:
            if (stance := current_stance()) != _DEFAULT:
                self._events.append(Stance(stance, self._above()))
        except Exception as fault:
            self._sensor_failed(fault)
        return result

    def _on_missing(self, fault: Exception) -> None:
        """Do nothing: then stances are named without a place."""


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
