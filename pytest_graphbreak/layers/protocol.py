"""The interface between a compiler and everything else: observers and their windows.

An observer watches one layer. Windows nest and may overlap (a ``graph_budget``
block in a test, a pytest run inside a test), so an observer hands out one
window for each ``open``; each window sees every event between its own open and
close, whatever other windows there are. Sensors are put in with the first open
window and taken out with the last.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

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

        This is for a compiler that does not itself know why it compiles again. The fixture
        ``graph_budget`` calls it from the first test that asks for it on; the gate's own windows
        know anyway.
        """
        return nullcontext()

    def hold(self) -> AbstractContextManager[None]:
        """Leave sensors in between windows that open inside, where putting them in costs time."""
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
