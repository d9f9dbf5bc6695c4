"""What an observer is: the seam between torch and everything else.

An observer watches one layer. Windows nest and may overlap (a ``graph_budget``
block in a test, a pytest run inside a test), so an observer hands out one
window for each ``open``; each window sees every event between its own open and
close, whatever other windows there are. Sensors are put in with the first open
window and taken out with the last.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import Observation


class Window(Protocol):
    """One stretch of time in which one layer is watched."""

    def close(self) -> Observation | None:
        """Stop watching; what was seen, or None if the layer was not there at all.

        Never raises for a fault of its own: a fault is an entry of
        ``Observation.errors``.
        """
        ...

    def peek(self) -> Observation | None:
        """What has been seen so far; the window stays open."""
        ...

    def aside(self) -> AbstractContextManager[None]:
        """What is done inside is not this window's: a fixture of the whole session, say.

        If the window was isolated, what was compiled inside is forgotten after
        it, as if it had been compiled before the window opened.
        """
        ...


class Observer(Protocol):
    """A layer that can be watched. One module of ``observers`` for each."""

    layer: str

    def open(self, places: Places) -> Window:
        """Begin to watch, changing nothing that the user's code can see.

        ``places`` names source files for this window's observation.
        Where the layer cannot be watched the window says so in the ``errors``
        of its observation; ``open`` itself does not raise.
        """
        ...

    def isolate(self, key: str) -> None:
        """Forget what earlier code compiled, so that the next window counts from cold.

        ``key`` is a stable name of what comes next (a node id). Called outside
        the test's own window, before it opens. What stood in the way is told by
        that window: as an error if its count may hang on it, else as a note.
        """
        ...
