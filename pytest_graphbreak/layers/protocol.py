"""The interface between a compiler and everything else: observers and their windows.

An observer watches one layer: ``layers.observers`` makes one for each, and ``measuring.measure``
opens a window of each around a piece of code. Windows nest and may overlap (a ``graph_budget``
block in a test, a pytest run inside a test), so an observer hands out one
window for each ``open``; each window sees every event between its own open and
close, whatever other windows there are. Sensors are put in with the first open
window and taken out with the last.

First the interface, then two bases for the windows of a layer: one that looks at what was observed,
and one for sensors that note events.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from pytest_graphbreak.layers.faults import guard
from pytest_graphbreak.model.merging import record_of
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import Record


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

        This is for a compiler that does not itself know why it compiles again: JAX. The fixture
        ``graph_budget`` calls it from the first test that asks for it on; the gate's own windows
        know anyway.
        """
        return nullcontext()

    def hold(self) -> AbstractContextManager[None]:
        """Leave sensors in between windows that open inside, where putting them in costs time.

        It does for Dynamo.
        """
        return nullcontext()

    def join(self, record: Record, others: Mapping[str, Record]) -> Record:
        """Return this layer's record, with what ``others``, by layer, saw of the same graphs.

        It is called for each process by itself: tt has its causes from xla.
        """
        return record

    def complete(self, record: Record) -> Record:
        """Return a record of all layers and child processes, with what follows for this layer.

        It is called once, after ``join``: inductor has the places of its graphs from Dynamo's.
        """
        return record

    def follows_fork(self) -> bool:
        """Return whether a process that was just forked from this one can be watched.

        One in which torch_xla has a device open cannot: only its parent's threads can use that.
        """
        return True

    def when_silent(self, call: Callable[[], None]) -> None:  # noqa: B027 - most layers are notified
        """Call ``call`` once something may be compiled that is found only by looking, if ever.

        Reading a value of torch_xla compiles so. A child process then reports that more may come.
        """

    def defers(self) -> bool:
        """Return whether graphs may still be compiled for what has run, until the process ends.

        Where torch_xla has a device open, what was asked of it may be compiled at the exit.
        """
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
        """The positions between which events are left out, in order."""
        self._last_read: tuple[tuple[int, int], Record | None] | None = None
        """The record as it was read last, with the numbers of events and faults that there were."""

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
        """Return the record; it is read again if there are more events than at the last look.

        ``faults`` is the number of errors that a layer has noted beside its events.
        """
        state = len(self._noted), faults
        if self._last_read is None or self._last_read[0] != state:
            self._last_read = (state, self._read([*self._included(state[0])]))
        return self._last_read[1]

    def _included(self, until: int) -> Iterator[Any]:
        """Yield the events up to a position: without 4 to 6, those from 2 to 4 and from 6 on."""
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
