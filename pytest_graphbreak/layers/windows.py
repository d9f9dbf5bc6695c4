"""How a layer keeps a window: a look at what was observed, or two positions in a list of events."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from pytest_graphbreak.layers.faults import guard
from pytest_graphbreak.model.merging import record_of
from pytest_graphbreak.model.record import Record


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
        """Return the record; it is read again if there are more events, or more ``faults``."""
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
