"""Layers that are observed by hooks around a few functions, which note what these did.

``inductor``, ``cudagraph`` and ``triton`` are such. Their events are a list that only grows, and a
window is two positions in it. A window without an event has no record of such a layer, instead of
one of zero graphs: what a test shows then does not depend on the modules that an earlier test
imported.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from msgspec.structs import replace

from pytest_graphbreak.layers.dynamo.private import torch_version
from pytest_graphbreak.layers.hooks import LatePatch, caller
from pytest_graphbreak.layers.locks import SensorLock
from pytest_graphbreak.layers.notifier import NOTIFIER
from pytest_graphbreak.layers.protocol import EventWindow, Observer, Window
from pytest_graphbreak.model import stacks
from pytest_graphbreak.model.items import NOWHERE, Graph, Recompile
from pytest_graphbreak.model.merging import record_of
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.stacks import RUNNERS, Line, line_at, outwards

MOST_FRAMES: Final = 400
"""The most frames of a stack that are kept."""
_MACHINERY: Final = frozenset(("torch", "triton", __name__.partition(".")[0]))


def do_without(fault: Exception) -> None:
    """Pass over a hook that a version of torch or Triton has no place for.

    It is what a ``LatePatch`` calls whose hook only explains: without it a reason has fewer words.
    Hooks that count have ``HookedObserver.note_fault``.
    """


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
    """Watches one layer by hooks that go in with the first window and come out with the last.

    The hooks of a subclass call ``note`` for each event; its ``explain`` gets those of a window.
    ``cudagraph`` alone counts something without an event for each, its replays: it has
    ``mark_runs``, asked when a window opens, and ``with_runs``, asked when it is read.
    """

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.faults: list[str] = []
        self._lock = SensorLock()
        self._windows = 0
        self._attached: tuple[LatePatch, ...] = ()

    @abstractmethod
    def hooks(self) -> Sequence[LatePatch]:
        """Return the hooks to put in."""

    @abstractmethod
    def explain(self, events: Sequence[Any], places: Places) -> Record:
        """Return the record of what was noted, which is at least one event."""

    def mark_runs(self) -> Any:
        """Return how much has been counted without events up to now."""
        return None

    def with_runs(self, record: Record | None, mark: Any, places: Places) -> Record | None:
        """Return the record with what was counted without events since ``mark``."""
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
        """Forget nothing: what lies below Dynamo is compiled again when Dynamo does it again.

        ``inductor`` and ``triton`` have caches of their own, and override this.
        """

    def note(self, event: Any) -> None:
        """Note an event, which a child process reports at once."""
        self.events.append(event)
        NOTIFIER.listener.on_event()

    def note_fault(self, fault: Exception) -> None:
        """Note that a hook could not be put in or failed: a gate that cannot see must not pass."""
        version = torch_version()
        words = f"{type(fault).__name__}: {fault}"
        self.faults.append(f"{self.layer}: it cannot be observed in torch {version} ({words})")


class HookedWindow(EventWindow):
    """What was noted on one layer between ``open`` and ``close``."""

    def __init__(self, observer: HookedObserver, places: Places) -> None:
        super().__init__(observer.layer, observer.events)
        self._observer = observer
        self._places = places
        self._mark = observer.mark_runs()

    @contextmanager
    def exclude(self) -> Iterator[None]:
        start = len(self._noted)
        try:
            yield
        finally:
            self._exclude_since(start)

    def _leave(self) -> None:
        self._observer.leave()

    def _look(self) -> Record | None:
        record = self._read_events(len(self._observer.faults))
        return self._observer.with_runs(record, self._mark, self._places)

    def _explain(self, events: Sequence[Any]) -> Record | None:
        faults = self._errors_of(events)
        if not events:
            return record_of(self._layer, errors=faults) if faults else None
        record = self._observer.explain(events, self._places)
        return replace(record, errors=(*faults, *record.errors))

    def _errors_of(self, events: Sequence[Any]) -> Sequence[str]:
        return self._observer.faults  # whatever the events are: what is missing cannot be known


def graph_called(
    graph: Graph, lines: Iterable[Line], again: str | None, places: Places
) -> tuple[Graph, Recompile | None]:
    """Return a graph with the stack of its call, and its recompile if it is the same code again.

    ``again`` says why it was made again; None if it is the first.
    """
    stack = stacks.users(lines, places)
    graph = replace(graph, where=stack[-1] if stack else NOWHERE, stack=stack)
    if again is None:
        return graph, None
    repeat = Recompile(graph.layer, graph.name, again, where=graph.where, stack=stack)
    return replace(graph, cause="recompile", reason=again), repeat


def record_of_graphs(layer: str, explained: Iterable[tuple[Graph, Recompile | None]]) -> Record:
    """Return the record of graphs, each with its recompile if it is the same code again."""
    pairs = [*explained]
    repeats = [repeat for _, repeat in pairs if repeat is not None]
    return record_of(
        layer,
        graphs=len(pairs),
        recompiles=len(repeats),
        graph_list=[graph for graph, _ in pairs],
        recompile_list=repeats,
    )
