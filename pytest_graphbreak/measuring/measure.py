"""Opens the observers around a piece of code and returns its ``Record``.

It knows no layer by name, and no pytest: the plugin, ``observe()`` and the
command line all measure through it.

Each layer has an observer for the whole process (``layers.protocol.Observer``). A ``Measurement``
opens a window of each, which sees what is compiled until it is closed. The functions above it set
up all observers: before a test (``isolate``), around several windows (the three context managers),
or for all windows that follow (``set_detail``, ``pass_over``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from msgspec.structs import replace

from pytest_graphbreak.layers import load_errors, observers
from pytest_graphbreak.layers.children.observer import FAMILY, Following
from pytest_graphbreak.layers.protocol import Window
from pytest_graphbreak.measuring.absent import why_nothing_is_observed
from pytest_graphbreak.measuring.labels import Labels
from pytest_graphbreak.model.layers import LAYERS
from pytest_graphbreak.model.merging import merge
from pytest_graphbreak.model.places import places
from pytest_graphbreak.model.record import Record


def isolate(key: str) -> None:
    """Forget what earlier code compiled. ``key`` names what comes next, such as a node id."""
    for observer in observers():
        observer.isolate(key)


@contextmanager
def keep_history() -> Iterator[None]:
    """Let windows that open inside know what was compiled before them. Nothing is counted."""
    with ExitStack() as stack:
        for observer in observers():
            stack.enter_context(observer.keep_history())
        yield


@contextmanager
def hold_sensors() -> Iterator[None]:
    """Leave sensors in between the windows that open inside."""
    with ExitStack() as holds:
        for observer in observers():
            holds.enter_context(observer.hold())
        yield


def follow(root: Path) -> AbstractContextManager[None]:
    """Let windows that open inside follow processes that were started inside before them."""
    return FAMILY.follow_between_windows(places(root))


def set_detail(*, reasons: bool, runs: bool) -> None:
    """Set what windows that open from now on observe besides the graphs that are made.

    ``reasons``: whether graphs are explained, or only counted. ``runs``: whether runs of graphs
    and values that are read are counted.
    """
    for observer in observers():
        observer.reasons, observer.runs = reasons, runs


def pass_over(root: Path, infra: Sequence[str]) -> None:
    """Name no places in the test infrastructure of the suite at ``root``: see ``Places``."""
    places(root).pass_over(infra)


class Measurement:
    """A window over all layers. Close it with ``close``; leaving the context closes it too."""

    def __init__(self, root: Path) -> None:
        user_places = places(root)
        self._labels = Labels(self._record_here)
        self._children = Following(user_places)
        self._windows: dict[str, Window] = {}
        self._record: Record | None = None
        try:
            for observer in observers():
                self._windows[observer.layer] = observer.open(user_places)
            self._labels.attach()
        except BaseException:  # the time limit of a test may arrive in between
            self._close_all()
            raise

    def peek(self) -> Record:
        """Return what was seen so far; after ``close`` what was seen in all."""
        if self._record is not None:
            return self._record
        record_here = self._labels.put_on(self._record_here())
        return _complete_record(record_here, self._children.peek())

    @property
    def unfinished(self) -> tuple[str, ...]:
        """Compilations that a process was killed in, or has not finished."""
        return self._children.unfinished

    def _record_here(self) -> Record:
        """Return what this process did so far."""
        return _record({layer: window.peek() for layer, window in self._windows.items()})

    @contextmanager
    def exclude(self) -> Iterator[None]:
        """Exclude from this window what is done inside, and forget what that compiles."""
        with ExitStack() as stack:
            stack.enter_context(self._children.exclude())
            for window in self._windows.values():
                stack.enter_context(window.exclude())
            yield

    def close(self) -> Record:
        """Stop watching; closing again returns the same record."""
        if self._record is None:
            self._close_all()
            record_here = self._labels.put_on(self._record_here())
            self._record = _complete_record(record_here, self._children.peek())
        return self._record

    def _close_all(self) -> None:
        """Put everything back, also where something raises. What was seen can be peeked at."""
        with ExitStack() as last_first:  # so nested patches are removed in order
            last_first.callback(self._children.close)
            for window in self._windows.values():
                last_first.callback(window.close)
            self._labels.detach()

    def __enter__(self) -> Measurement:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()


def _record(seen: Mapping[str, Record | None]) -> Record:
    """Return what this process did: each layer, with what others know of its graphs."""
    layers = {layer: record for layer in LAYERS if (record := seen.get(layer)) is not None}
    for observer in observers():
        if observer.layer in layers:
            layers[observer.layer] = observer.join(layers[observer.layer], layers)
    record = merge(list(layers.values()))
    if faults := load_errors():
        return replace(record, errors=(*faults, *record.errors))
    if not record.layers and (why := why_nothing_is_observed()):
        return Record(errors=(f"{why}, so nothing can be counted",))
    return record


def _complete_record(record_here: Record, children: Sequence[Record]) -> Record:
    """Return the record of the window: this process's, and those of its children."""
    record = merge((record_here, *children)) if children else record_here
    for observer in observers():
        record = observer.complete(record)
    return record
