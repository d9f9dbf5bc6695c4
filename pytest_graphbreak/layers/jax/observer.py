"""The jax layer: XLA executables that JAX compiled, in this process and all of its threads.

``sensors`` puts a hook around the one function by which JAX compiles a program or finds it in its
persistent cache, ``calls`` reads from JAX's own frames which call it is for, ``programs`` and
``keys`` say why a function is compiled again, ``events`` whose program it is, ``explain`` makes a
``Record`` of it all. ``private`` lists the names of JAX that this uses.

An executable that is held (``lower().compile()``) or loaded
(``jax.experimental.serialize_executable``) and runs again is not observed: it compiles nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from pytest_graphbreak.layers.base import Observer, OneWindow, Window, included_events
from pytest_graphbreak.layers.jax import private
from pytest_graphbreak.layers.jax.events import Executable, is_on_device
from pytest_graphbreak.layers.jax.explain import explain
from pytest_graphbreak.layers.jax.sensors import SENSORS
from pytest_graphbreak.model.merging import record_of
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import Record

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=SENSORS.after_fork)


class JaxObserver(Observer):
    """Watches what JAX compiles for the device."""

    layer = "jax"

    def __init__(self) -> None:
        self._not_isolated: list[str] | None = None

    def open(self, places: Places) -> Window:
        not_isolated, self._not_isolated = self._not_isolated, None
        return JaxWindow(self, places, not_isolated)

    def isolate(self, key: str) -> None:
        """Forget what JAX compiled; do nothing if it is not loaded."""
        self._not_isolated = []
        if private.is_loaded():
            try:
                self.forget()
            except Exception as fault:
                self._not_isolated.append(
                    f"jax: its caches could not be cleared before {key}, so its counts depend on "
                    f"what ran before it: {type(fault).__name__}: {fault}"
                )

    @contextmanager
    def keep_history(self) -> Iterator[None]:
        """Keep the ledger of functions by keeping the sensors in."""
        with ExitStack() as leaving:
            with suppress(Exception):  # a window reports what prevents it
                SENSORS.acquire()
                leaving.callback(SENSORS.release)
            yield

    def forget(self) -> None:
        """Have JAX compile everything again. Raises ``MissingName``."""
        SENSORS.ledger.clear()
        SENSORS.kept.is_on = True
        if private.has_compiled():
            SENSORS.traces.clear()
            _forget_traces()

    def is_here(self, program: Executable) -> bool:
        return is_on_device(program)


def _forget_traces() -> None:
    """Reset the counts that chex keeps for ``assert_max_traces``, along with the caches.

    A function that two tests share is traced by each of them: chex would take the second for one
    time too many. Its documentation says to do this at the start of a test.
    """
    clear = getattr(sys.modules.get("chex"), "clear_trace_counter", None)
    if callable(clear):
        clear()


class JaxWindow(OneWindow):
    """One stretch of time on one of the two layers."""

    def __init__(
        self, observer: JaxObserver, places: Places, not_isolated: list[str] | None
    ) -> None:
        """Open a window; ``not_isolated`` is what prevented isolating it, None if nobody tried."""
        self._observer = observer
        self._places = places
        self._not_isolated = not_isolated
        self._excluded: list[tuple[int, int]] = []
        self._errors: list[str] = []
        self._last_read: tuple[Any, Record] | None = None
        try:
            SENSORS.acquire()
        except Exception as fault:
            self._errors.append(f"the jax layer cannot be observed: {fault}")
        self._first = len(SENSORS.events)

    def _look(self) -> Record | None:
        if not private.is_loaded():
            return None
        disabled = self._observer.layer == JaxObserver.layer and private.jit_is_disabled()
        return self._observe().with_notes(DISABLED if disabled else "")

    def _leave(self) -> None:
        SENSORS.release()

    @contextmanager
    def exclude(self) -> Iterator[None]:
        begin, was_loaded = len(SENSORS.events), private.is_loaded()
        try:
            yield
        finally:
            end = len(SENSORS.events)
            self._excluded.append((begin, end))
            if self._not_isolated is not None and (
                end > begin or was_loaded != private.is_loaded()
            ):
                self._forget()

    def _forget(self) -> None:
        """Forget what a wider fixture compiled: it is compiled again where the test needs it."""
        try:
            self._observer.forget()
        except Exception as fault:
            self._errors.append(f"jax: what a fixture compiled could not be forgotten: {fault}")

    def _observe(self) -> Record:
        until = len(SENSORS.events)
        if self._last_read is None or self._last_read[0] != until:
            events = list(included_events(SENSORS.events, self._first, self._excluded, until))
            errors = [*SENSORS.errors, *self._errors, *(self._not_isolated or ())]
            if not SENSORS.attached:
                errors.append(UNWATCHED)
            try:
                seen = explain(
                    self._observer.layer, events, self._observer.is_here, self._places, errors
                )
            except Exception as fault:
                programs = sum(isinstance(event, Executable) for event in events)
                error = f"jax: what was seen could not be read: {type(fault).__name__}: {fault}"
                seen = record_of(self._observer.layer, graphs=programs, errors=(*errors, error))
            self._last_read = (until, seen)
        return self._last_read[1]


DISABLED = "jax: JAX_DISABLE_JIT is set (or jax.disable_jit), so jax.jit compiles nothing"
UNWATCHED = (
    "jax was imported in a way that could not be watched: import it before the test, for "
    "example at the top of conftest.py"
)


# The function that ``doctor`` tries the jax layer with.


class JaxProbe:
    """A function that is called with two lengths of its input, and one operation outside of it."""

    expected = "3 graphs = 1 jit + 1 retrace + 1 eager, 1 recompile, 0 breaks"

    def prepare(self) -> Callable[[], object]:
        import jax
        import numpy

        def small(x: jax.Array) -> jax.Array:
            return jax.numpy.sin(x)

        three, four = (numpy.ones(size, numpy.float32) for size in (3, 4))

        def run() -> None:
            compiled = jax.jit(small)
            compiled(three)
            compiled(four)
            jax.numpy.negative(three)

        return run

    def about(self) -> str:
        import jax

        return f"jax {jax.__version__} on {jax.default_backend()}"
