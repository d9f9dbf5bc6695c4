"""The jax layer: XLA executables that JAX compiled, in this process and all of its threads.

``sensors`` puts a hook around the one function by which JAX compiles a program or finds it in its
persistent cache, and notes what it made (``executables``). ``calls`` reads from JAX's own frames
which call it is for, and its key (``keys``); ``programs`` says why a function (``functions``) is
compiled again, by how keys differ (``differences``, with words of ``values``). ``interruptions``
recognises code that is not compiled, ``device`` which executables count, ``explain`` makes a
``Record`` of it all. ``traces`` keeps a part of JAX's caches between tests, ``kept`` executables
beside them; ``private`` lists the names of JAX that this uses.

An executable that is held (``lower().compile()``) or loaded
(``jax.experimental.serialize_executable``) and runs again is not observed: it compiles nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

from pytest_graphbreak.layers.faults import guard
from pytest_graphbreak.layers.jax import private
from pytest_graphbreak.layers.jax.executables import Executable
from pytest_graphbreak.layers.jax.explain import Event, explain
from pytest_graphbreak.layers.jax.sensors import SENSORS
from pytest_graphbreak.layers.protocol import EventWindow, Observer, Window
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import Record


class JaxObserver(Observer):
    """Watches what JAX compiles for the device."""

    layer = "jax"

    def __init__(self) -> None:
        self._not_isolated: list[str] | None = None
        """Why the next window is not isolated::

            None     nobody tried
            []       it is isolated
            [...]    it was tried, and this prevented it
        """

    def open(self, places: Places) -> Window:
        not_isolated, self._not_isolated = self._not_isolated, None
        return JaxWindow(self, places, not_isolated)

    def isolate(self, key: str) -> None:
        """Forget what JAX compiled; do nothing if it is not loaded."""
        self._not_isolated = []
        words = (
            f"jax: its caches could not be cleared before {key}, so its counts depend on what ran "
            "before it"
        )
        if private.is_loaded():
            with guard(partial(_note, self._not_isolated, words)):
                self.forget()

    @contextmanager
    def keep_history(self) -> Iterator[None]:
        """Keep the ledger of functions by keeping the sensors in."""
        with ExitStack() as leaving:
            with guard():  # a window reports what prevents it
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


def _note(errors: list[str], words: str, fault: Exception) -> None:
    errors.append(f"{words}: {type(fault).__name__}: {fault}")


def _forget_traces() -> None:
    """Reset the counts that chex keeps for ``assert_max_traces``, along with the caches.

    A function that two tests share is traced by each of them: chex would take the second for one
    time too many. Its documentation says to do this at the start of a test.
    """
    clear = getattr(sys.modules.get("chex"), "clear_trace_counter", None)
    if callable(clear):
        clear()


class JaxWindow(EventWindow):
    """One stretch of time on the jax layer."""

    graph_event = Executable

    def __init__(
        self, observer: JaxObserver, places: Places, not_isolated: list[str] | None
    ) -> None:
        """Open a window; ``not_isolated`` is what prevented isolating it, None if nobody tried."""
        self._observer = observer
        self._places = places
        self._not_isolated = not_isolated
        self._errors: list[str] = []
        with guard(partial(_note, self._errors, "the jax layer cannot be observed")):
            SENSORS.acquire()
        super().__init__(observer.layer, SENSORS.events)

    def _look(self) -> Record | None:
        record = self._read_events() if private.is_loaded() else None
        if record is None:
            return None
        return record.with_notes(DISABLED if private.jit_is_disabled() else "")

    def _leave(self) -> None:
        SENSORS.release()

    @contextmanager
    def exclude(self) -> Iterator[None]:
        start, was_loaded = len(self._noted), private.is_loaded()
        try:
            yield
        finally:
            self._exclude_since(start)
            is_new = len(self._noted) > start or was_loaded != private.is_loaded()
            if is_new and self._not_isolated is not None:
                self._forget()

    def _forget(self) -> None:
        """Forget what a wider fixture compiled: it is compiled again where the test needs it."""
        words = "jax: what a fixture compiled could not be forgotten"
        with guard(partial(_note, self._errors, words)):
            self._observer.forget()

    def _explain(self, events: Sequence[Event]) -> Record:
        return explain(events, self._places, self._errors_of(events))

    def _errors_of(self, events: Sequence[Event]) -> Sequence[str]:
        unwatched = () if SENSORS.attached else (UNWATCHED,)
        return [*SENSORS.errors, *self._errors, *(self._not_isolated or ()), *unwatched]


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
