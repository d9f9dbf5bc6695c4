"""Layers that are observed by hooks around a few functions, which note what these did.

``inductor``, ``cudagraph`` and ``triton`` are such. Their events are a list that only grows, and a
window is two positions in it. Such a layer is there where something was noted in the window: what
a test shows then does not depend on the modules that an earlier test imported.
"""

from __future__ import annotations

import os
import sys
import threading
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, Protocol

from pytest_graphbreak.layers.base import NOTIFIER, Observer, OneWindow, Window
from pytest_graphbreak.layers.hooks import caller
from pytest_graphbreak.model.merging import record_of
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.stacks import RUNNERS, Line, line_at, outwards

MOST_FRAMES: Final = 400
_MACHINERY: Final = frozenset(("torch", "triton", __name__.partition(".")[0]))


class Attachable(Protocol):
    """A hook that can be put in and taken out."""

    def attach(self) -> None: ...

    def detach(self) -> None: ...


def is_machinery(frame: FrameType) -> bool:
    """Return whether a frame runs code of torch, Triton or this package, or of inductor's making.

    Inductor gives its files names of modules below ``torch``; they may lie in any directory.
    """
    return str(frame.f_globals.get("__name__")).partition(".")[0] in _MACHINERY


def stack_here() -> tuple[Line, ...]:
    """Return the stack from the test to what called torch or Triton, outermost first."""
    lines: list[Line] = []
    for frame in outwards(caller()):
        if frame.f_code.co_filename.endswith(RUNNERS) or len(lines) == MOST_FRAMES:
            break
        if not is_machinery(frame):
            lines.append(line_at(frame))
    return tuple(reversed(lines))


class HookedObserver(Observer):
    """Watches one layer by hooks that go in with the first window and come out with the last."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.faults: list[str] = []
        self._lock = threading.RLock()
        self._windows = 0
        self._attached: tuple[Attachable, ...] = ()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    @abstractmethod
    def hooks(self) -> Sequence[Attachable]:
        """Return the hooks to put in."""

    @abstractmethod
    def explain(self, events: Sequence[Any], places: Places) -> Record:
        """Return the record of what was noted, which is at least one event."""

    def mark_runs(self) -> Any:
        """Return what is counted apart from events (replays), at this moment."""
        return None

    def with_runs(self, record: Record | None, mark: Any, places: Places) -> Record | None:
        """Return the record with what was counted apart from events since ``mark``."""
        return record

    def open(self, places: Places) -> Window:
        with self._lock:
            if not self._windows:
                self._attached = tuple(self.hooks())
                for hook in self._attached:
                    hook.attach()
            self._windows += 1
        return HookedWindow(self, places)

    def leave(self) -> None:
        """Close a window; with the last one everything is put back."""
        with self._lock:
            self._windows -= 1
            if not self._windows:
                for hook in reversed(self._attached):
                    hook.detach()
                self._attached = ()
                self.events.clear()
                self.faults.clear()

    def isolate(self, key: str) -> None:
        """Forget nothing: most of these layers compile again when the layer above does."""

    def note(self, event: Any) -> None:
        """Note an event, which a child process reports at once."""
        self.events.append(event)
        NOTIFIER.listener.on_event()

    def note_fault(self, fault: Exception) -> None:
        """Note that a hook could not be put in or failed: a gate that cannot see must not pass."""
        version = getattr(sys.modules.get("torch"), "__version__", "unknown")
        words = f"{type(fault).__name__}: {fault}"
        self.faults.append(f"{self.layer}: it cannot be observed in torch {version} ({words})")

    def _after_fork(self) -> None:
        self._lock = threading.RLock()


class HookedWindow(OneWindow):
    """What was noted on one layer between ``open`` and ``close``."""

    def __init__(self, observer: HookedObserver, places: Places) -> None:
        self._observer = observer
        self._places = places
        self._first = len(observer.events)
        self._excluded: list[tuple[int, int]] = []
        self._mark = observer.mark_runs()
        self._last_read: tuple[int, Record] | None = None

    @contextmanager
    def exclude(self) -> Iterator[None]:
        begin = len(self._observer.events)
        try:
            yield
        finally:
            self._excluded.append((begin, len(self._observer.events)))

    def _leave(self) -> None:
        self._observer.leave()

    def _look(self) -> Record | None:
        observer = self._observer
        until = len(observer.events)
        record = None if self._last_read is None else self._last_read[1]
        if self._last_read is None or self._last_read[0] != until:
            numbers = range(self._first, until)
            events = [
                observer.events[number]
                for number in numbers
                if not any(begin <= number < end for begin, end in self._excluded)
            ]
            record = self._read(events) if events or observer.faults else None
            self._last_read = None if record is None else (until, record)
        return observer.with_runs(record, self._mark, self._places)

    def _read(self, events: Sequence[Any]) -> Record:
        layer, faults = self._observer.layer, tuple(self._observer.faults)
        try:
            record = self._observer.explain(events, self._places)
        except Exception as fault:
            words = f"{type(fault).__name__}: {fault}"
            error = f"{layer}: what was seen could not be read: {words}"
            return record_of(layer, graphs=len(events), errors=(*faults, error))
        return record_of(layer, errors=faults) if not events else _add_errors(record, faults)


def _add_errors(record: Record, errors: tuple[str, ...]) -> Record:
    from msgspec.structs import replace

    return replace(record, errors=(*errors, *record.errors)) if errors else record
