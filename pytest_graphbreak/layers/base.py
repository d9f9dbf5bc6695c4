"""The interface between a compiler and everything else: observers and their windows.

An observer watches one layer. Windows nest and may overlap (a ``graph_budget``
block in a test, a pytest run inside a test), so an observer hands out one
window for each ``open``; each window sees every event between its own open and
close, whatever other windows there are. Sensors are put in with the first open
window and taken out with the last.

Below them are the observers of this process, what sensors in several threads share (``SensorLock``,
``Turn``), and how a child process is notified of what was compiled (``NOTIFIER``).
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache, partial
from importlib import import_module
from typing import Any, Final, Protocol
from weakref import WeakSet

from pytest_graphbreak.layers.faults import guard
from pytest_graphbreak.model.layers import DESCRIPTIONS
from pytest_graphbreak.model.merging import record_of
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import LineRuns, Record


class MissingName(Exception):
    """A private name of a compiler is missing; the text says which one, and what it is used for."""


def locate(holder: Any, chain: str) -> tuple[Any, str]:
    """Return the holder of a name, such as ``OutputGraph.call_user_compiler``, and its last part.

    Raises ``AttributeError`` if the name, or what should hold it, does not exist.
    """
    *path, last = chain.split(".")
    for attribute in path:
        holder = getattr(holder, attribute)
    getattr(holder, last)
    return holder, last


class Window(Protocol):
    """One stretch of time in which one layer is watched."""

    def close(self) -> Record | None:
        """Stop watching and return the record of this layer, or None if it was not there at all.

        Never raises for a fault of its own: a fault is one of the record's ``errors``,
        which make the verdict ``error``.
        """

    def peek(self) -> Record | None:
        """Return what has been seen so far; the window stays open."""

    def exclude(self) -> AbstractContextManager[None]:
        """Exclude from this window what is done inside: a fixture of the whole session, say.

        If the window was isolated, what was compiled inside is forgotten after
        it, as if it had been compiled before the window opened.
        """


READER_WAIT: Final = 1.0
"""Seconds for which the reader of a window waits for a sensor that works in another thread."""


class WindowBase(ABC):
    """A window that looks at what was observed, and remembers the last look once it is closed."""

    _is_open = True
    _last: Record | None = None

    @abstractmethod
    def _look(self) -> Record | None:
        """Return what has been seen so far; None if the layer was not there at all."""

    def _leave(self) -> None:  # noqa: B027 - not every window puts something in
        """Put back what the window put in."""

    def peek(self) -> Record | None:
        return self._look() if self._is_open else self._last

    def close(self) -> Record | None:
        if self._is_open:
            try:
                self._last = self._look()
            finally:
                self._is_open = False
                self._leave()
        return self._last


class EventWindow(WindowBase):
    """A window of a layer whose sensors note events: two positions in a list that only grows.

    Events are read once: a look is cheap while nothing new happened. Where reading them fails, the
    events of the type ``graph_event`` are counted as graphs.
    """

    graph_event: type = object

    def __init__(self, layer: str, noted: list[Any]) -> None:
        self._layer = layer
        self._noted = noted
        self._first = len(noted)
        self._excluded: list[tuple[int, int]] = []
        self._last_read: tuple[tuple[int, int], Record | None] | None = None

    @abstractmethod
    def _explain(self, events: Sequence[Any]) -> Record | None:
        """Return the record of the events of this window."""

    def _errors_of(self, events: Sequence[Any]) -> Sequence[str]:
        """Return what could not be observed in this window."""
        return ()

    def _exclude_since(self, start: int) -> None:
        """Exclude the events from position ``start`` on, up to now."""
        self._excluded.append((start, len(self._noted)))

    def _read_events(self, faults: int = 0) -> Record | None:
        """Return the record; it is read again if there are more events, or more ``faults``."""
        state = len(self._noted), faults
        if self._last_read is None or self._last_read[0] != state:
            self._last_read = (state, self._read([*self._included(state[0])]))
        return self._last_read[1]

    def _included(self, until: int) -> Iterator[Any]:
        first = self._first
        for start, end in self._excluded:
            yield from self._noted[first:start]
            first = end
        yield from self._noted[first:until]

    def _read(self, events: Sequence[Any]) -> Record | None:
        errors = [*self._errors_of(events)]
        words = f"{self._layer}: what was seen could not be read"
        with guard(lambda fault: errors.append(f"{words}: {type(fault).__name__}: {fault}")):
            return self._explain(events)
        graphs = sum(isinstance(event, self.graph_event) for event in events)
        return record_of(self._layer, graphs=graphs, errors=errors)


class Observer(ABC):
    """A layer that can be watched: the class that its description names as ``observer``.

    ``reasons``: whether graphs are explained, or only counted; to be read when a window
    opens. A layer on which explaining costs nothing may always do so. ``runs``: whether runs of
    graphs and reads are counted, likewise. ``shared``: all processes of a test write to one log, so
    the test's own window sees them all, and its child processes open none.
    """

    layer: str
    reasons: bool = True
    runs: bool = True
    shared: bool = False

    @abstractmethod
    def open(self, places: Places) -> Window:
        """Begin to watch, without changing anything that the user's code can see.

        ``places`` names source files for this window's record.
        Where the layer cannot be watched the window says so in the ``errors``
        of its record; ``open`` itself does not raise. In a child process it is called when the
        compiler's module is in ``sys.modules`` and has not run yet (``imports.is_whole``).
        """

    @abstractmethod
    def isolate(self, key: str) -> None:
        """Forget what earlier code compiled, so that the next window counts from cold.

        ``key`` is a stable name of what comes next (a node id). Called outside
        the test's own window, before it opens. That window reports what
        prevented it: as an error if its count may depend on it, else as a note.
        """

    def keep_history(self) -> AbstractContextManager[None]:
        """Note what is compiled inside, so that a window in it can tell what is compiled again.

        This is for a compiler that does not itself know why it compiles again. The fixture
        ``graph_budget`` calls it from the first test that asks for it on; the gate's own windows
        know anyway.
        """
        return nullcontext()

    def hold(self) -> AbstractContextManager[None]:
        """Leave sensors in between windows that open inside, where putting them in costs time."""
        return nullcontext()

    def join(self, record: Record, others: Mapping[str, Record]) -> Record:
        """Return this layer's record, with what ``others``, by layer, saw of the same graphs."""
        return record

    def complete(self, record: Record) -> Record:
        """Return a record of all layers and child processes, with what follows for this layer."""
        return record

    def follows_fork(self) -> bool:
        """Return whether a process that was just forked from this one can be watched."""
        return True

    def when_silent(self, call: Callable[[], None]) -> None:  # noqa: B027 - most layers are notified
        """Call ``call`` once something may be compiled that is found only by looking, if ever."""

    def defers(self) -> bool:
        """Return whether graphs may still be compiled for what has run, until the process ends."""
        return False


class Probe(Protocol):
    """The code that ``doctor`` tries a layer with: what its description names as ``probe``.

    It is made and used in a process of its own. ``expected`` is what the observer has to see.
    """

    expected: str

    def prepare(self) -> Callable[[], object]:
        """Set up all that is not to be counted; return the function that is called and watched."""

    def about(self) -> str:
        """Return what it was tried with: ``torch 2.9.1``. Called after it has run."""


# The observers of this process, one for each layer.


def observers() -> tuple[Observer, ...]:
    """Return the observers of this process, one for each layer. No compiler is imported."""
    return _load()[0]


def load_errors() -> tuple[str, ...]:
    """Return why layers cannot be loaded: one that is not watched has no count of zero."""
    return _load()[1]


def load(path: str) -> Any:
    """Return the object that ``package.module:Name`` names: an observer or a probe of a layer.

    Raises ``ImportError`` and ``AttributeError``.
    """
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


@cache
def _load() -> tuple[tuple[Observer, ...], tuple[str, ...]]:
    loaded: list[Observer] = []
    faults: list[str] = []
    for layer in DESCRIPTIONS.values():
        with guard(partial(_note_load_error, faults, layer.name)):
            loaded.append(load(layer.observer)())
    return tuple(loaded), tuple(faults)


def _note_load_error(errors: list[str], layer: str, fault: Exception) -> None:
    words = f"{type(fault).__name__}: {fault}"
    errors.append(f"the {layer} layer cannot be loaded ({words}): reinstall pytest-graphbreak")


class SensorLock:
    """A lock that is free in a forked process: the thread that holds it may not exist there."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _LOCKS.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *failure: object) -> None:
        with suppress(RuntimeError):  # this thread has forked inside
            self._lock.release()

    def renew(self) -> None:
        self._lock = threading.RLock()


class Turn:
    """Has one thread at a time do some work, and no step of the user's wait for another thread.

    A call that comes meanwhile, from another thread or a signal handler, has the work done again by
    the thread that is at it.
    """

    def __init__(self) -> None:
        self._is_asked_for = False
        self.renew()
        _LOCKS.add(self)

    def take(self, work: Callable[[], object], patience: float = 0.0) -> None:
        """Do the work, or leave it to the thread that is at it.

        With ``patience``, of a reader that needs the outcome, that thread is waited for so many
        seconds; if it is not done by then, the work is done beside it.
        """
        self._is_asked_for = True
        is_ours = self._lock.acquire(timeout=patience) if patience else False
        try:
            is_ours = is_ours or self._lock.acquire(blocking=False)
            while self._is_asked_for and (is_ours or patience):
                self._is_asked_for = False
                work()
        finally:
            if is_ours:
                self._lock.release()
        if self._is_asked_for and is_ours:  # asked for after the last look, and left to us
            self.take(work)

    def renew(self) -> None:
        self._lock = threading.Lock()


_LOCKS: Final[WeakSet[SensorLock | Turn]] = WeakSet()


def _after_fork() -> None:
    for lock in [*_LOCKS]:
        lock.renew()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)


# Notifies a listener when something was compiled: a child process reports it at once.
#
# In the process of the test nobody listens, and this costs an empty call.


class Listener:
    """A listener that the sensors call while torch compiles. None of its methods may raise.

    This one does nothing.
    """

    def on_begin(self) -> None:
        """Note that a compilation begins in this thread."""

    def on_end(self) -> None:
        """Note that the compilation that began last in this thread has ended."""

    def on_event(self) -> None:
        """Note that something was noted outside of such a compilation."""

    def on_run(self, compiled: CountedFunction, key: Any) -> None:
        """Note that a compiled function was called by a place and a thread: by its ``key``.

        A step of a model waits for it, so it must be cheap.
        """


class CountedFunction(Protocol):
    """A compiled function whose runs are counted."""

    def line(self, key: Any, places: Places) -> LineRuns:
        """Return one run of it by a place and a thread."""


NOBODY: Final = Listener()


class Notifier:
    """A holder of at most one listener at a time."""

    listener: Listener = NOBODY


NOTIFIER = Notifier()
