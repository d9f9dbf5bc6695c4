"""The dynamo layer: FX graphs, graph breaks, recompiles, functions left to eager.

``sensors`` wraps a few functions of Dynamo while a window is open, ``private`` lists them,
``window_reader`` makes a ``Record`` of what they noted, ``messages`` reads Dynamo's messages.

Code that Dynamo never attempts is not observed: under ``torch.compiler.set_stance("force_eager")``,
inside ``torch.compiler.disable`` and in functions without tensors nothing is attempted, and nothing
is counted. What child processes compile is followed by ``children``.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from pytest_graphbreak.layers.dynamo import isolation
from pytest_graphbreak.layers.dynamo.events import Event, Made, Missed, NotObserved, Started
from pytest_graphbreak.layers.dynamo.executions import calls_since
from pytest_graphbreak.layers.dynamo.private import EXTENSION, current_stance
from pytest_graphbreak.layers.dynamo.sensors import DynamoSensors
from pytest_graphbreak.layers.dynamo.window_reader import read_window, stance_notes
from pytest_graphbreak.layers.faults import guard
from pytest_graphbreak.layers.imports import ImportWatch, is_extension, loaded
from pytest_graphbreak.layers.locks import READER_WAIT, SensorLock
from pytest_graphbreak.layers.protocol import EventWindow, Observer, Window
from pytest_graphbreak.model.merging import merge
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import Record

DYNAMO = "torch._dynamo"


class DynamoObserver(Observer):
    """Watches Dynamo in this process, in all of its threads."""

    layer = "dynamo"

    def __init__(self) -> None:
        self._lock = SensorLock()
        self._windows: list[DynamoWindow] = []
        self._holders = 0
        """How many ``hold`` are under way: the sensors stay in."""
        self._sensors: DynamoSensors | None = None
        self._import: ImportWatch | None = None
        self._isolation_faults: list[str] | None = None
        """What prevented isolating the next window; None if nobody tried."""
        self._is_stuck = False
        """Whether the last ``isolate`` waited for another thread in vain."""

    def open(self, places: Places) -> Window:
        """Begin to watch. torch is not imported by this, but waited for if need be."""
        with self._lock:
            if self._sensors is None:
                self._sensors = DynamoSensors(self.runs)
            sensors = self._sensors
            window = DynamoWindow(self, sensors, places, self._isolation_faults)
            self._isolation_faults = None
            self._windows.append(window)
            if not _dynamo_is_imported() and self._import is None:
                self._import = ImportWatch([DYNAMO], lambda: self._on_import(sensors))
                self._import.attach()
        if _dynamo_is_imported():
            with guard(lambda fault: window.fail(f"dynamo: it could not be watched: {fault}")):
                if not sensors.attached:
                    # Another thread may be importing it: wait for that outside of the
                    # lock, which it needs as well.
                    importlib.import_module(DYNAMO)
                    self._attach(sensors)
                window.begin()
        return window

    def isolate(self, key: str) -> None:
        """Reset Dynamo, so that what comes next compiles everything itself.

        A reset that fails is reported by the next window.
        """
        self._isolation_faults = notes = list[str]()
        if not _dynamo_is_imported():
            return

        def tell(fault: Exception) -> None:
            self._is_stuck = isinstance(fault, isolation.Busy)
            notes.append(
                f"dynamo: torch._dynamo.reset() failed before {key}, "
                f"so its counts depend on what ran before it: {fault}"
            )

        with guard(tell):
            # A thread that goes on is waited for once: later tests only look.
            with isolation.no_other_compiles(0 if self._is_stuck else isolation.PATIENCE):
                isolation.reset()
            self._is_stuck = False

    def leave(self, window: DynamoWindow) -> None:
        """Close a window; with the last one everything is put back, unless it is held."""
        with self._lock:
            if window in self._windows:
                self._windows.remove(window)
            self._detach_if_unused()

    @contextmanager
    def hold(self) -> Iterator[None]:
        with self._lock:
            self._holders += 1
        try:
            yield
        finally:
            with self._lock:
                self._holders -= 1
                self._detach_if_unused()

    def _detach_if_unused(self) -> None:
        """Take the sensors out if nobody needs them."""
        if self._windows or self._holders:
            return
        self._stop_waiting()
        if self._sensors is not None:
            self._sensors.detach()
        self._sensors = None

    def _attach(self, sensors: DynamoSensors) -> None:
        with self._lock:
            self._stop_waiting()
            if sensors is self._sensors and not sensors.attached:
                sensors.attach()

    def _on_import(self, sensors: DynamoSensors) -> None:
        """Begin to watch Dynamo, which was imported while windows are open."""
        self._attach(sensors)
        if reason := why_disabled():
            sensors.notes.events.append(NotObserved(reason))

    def _stop_waiting(self) -> None:
        if self._import is not None:
            self._import.detach()
            self._import = None


class DynamoWindow(EventWindow):
    """What Dynamo did between ``open`` and ``close``."""

    graph_event = Made

    def __init__(
        self,
        observer: DynamoObserver,
        sensors: DynamoSensors,
        places: Places,
        isolation_faults: Sequence[str] | None,
    ) -> None:
        """Open a window; ``isolation_faults`` prevented isolating it, None if nobody tried."""
        sensors.note_missed(READER_WAIT)  # graphs that were missed before are of earlier windows
        super().__init__("dynamo", sensors.notes.events)
        self._observer = observer
        self._sensors = sensors
        self._places = places
        self._isolation_faults = isolation_faults
        self._errors: list[str] = []
        self._stance = current_stance()
        self._ran = sensors.ran()

    def begin(self) -> None:
        """Begin where Dynamo is imported already: note what prevents observing it."""
        self._errors += self._sensors.blind
        if reason := why_disabled():
            self.fail(reason)

    def fail(self, error: str) -> None:
        """Add an error to what this window will have seen."""
        self._errors.append(error)

    @contextmanager
    def exclude(self) -> Iterator[None]:
        self._sensors.note_missed(READER_WAIT)
        start = len(self._noted)
        ran = self._sensors.ran()
        was_imported = _dynamo_is_imported()
        is_isolated = self._isolation_faults is not None
        # In the window of an isolated test Dynamo forgets what is compiled inside, so that the test
        # compiles it once more, and counts it.
        mark = isolation.mark() if was_imported and is_isolated else None
        try:
            yield
        finally:
            self._sensors.note_missed(READER_WAIT)
            self._exclude_since(start)
            # What ran inside counts as having run before this window.
            for key, count in calls_since(self._sensors.ran(), ran).items():
                self._ran[key] = self._ran.get(key, 0) + count
            with guard(self._not_forgotten):
                if mark is not None:
                    isolation.forget(mark)
                elif is_isolated and not was_imported and _dynamo_is_imported():
                    isolation.reset()  # all that is compiled was compiled inside

    def _not_forgotten(self, fault: Exception) -> None:
        self.fail(f"dynamo: what a fixture compiled could not be forgotten: {fault}")

    def _leave(self) -> None:
        self._observer.leave(self)

    def _look(self) -> Record | None:
        if not is_extension(EXTENSION):  # without torch there is no record of the layer
            return None
        if _dynamo_is_imported() and not self._sensors.attached:
            return read_window((), self._places, [*self._errors, _NOT_WATCHED])
        self._sensors.note_missed(READER_WAIT)
        record = self._read_events()
        return None if record is None else self._with_runs(record)

    def _with_runs(self, record: Record) -> Record:
        executions = self._sensors.executions
        if executions is None:
            return record
        errors = [*record.errors]
        words = "dynamo: what ran could not be read"
        with guard(lambda fault: errors.append(f"{words}: {type(fault).__name__}: {fault}")):
            ran = calls_since(executions.calls_so_far(), self._ran)
            runs = tuple(executions.runs(ran, self._places))
            count = sum(run.count for run in runs)
            return merge([replace(record, executions={"dynamo": count}, execution_list=runs)])
        return replace(record, errors=tuple(errors))

    def _explain(self, events: Sequence[Event]) -> Record:
        """Return the record; a fault of isolation that is no error of it is a note."""
        errors = self._errors_of(events)
        not_isolated = [fault for fault in self._isolation_faults or () if fault not in errors]
        notes = stance_notes(events, self._stance, self._places)
        return read_window(events, self._places, errors).with_notes(*not_isolated, *notes)

    def _errors_of(self, events: Sequence[Event]) -> Sequence[str]:
        """Return what could not be observed.

        That a test was not isolated is an error only if something was compiled in it, since its
        counts depend on that.
        """
        compiled = any(isinstance(event, (Started, Made, Missed)) for event in events)
        return [*((self._isolation_faults or ()) if compiled else ()), *self._errors]


def _dynamo_is_imported() -> bool:
    return loaded(DYNAMO) is not None


_NOT_WATCHED = (
    "dynamo: torch._dynamo was imported in a way that could not be watched. "
    "Import it before the test, for example at the top of conftest.py."
)


def why_disabled() -> str | None:
    """Return why Dynamo compiles nothing that could be seen in this process, or None if it does.

    Sources: ``_optimize`` of torch/_dynamo/eval_frame.py, which reads the
    variable at each ``torch.compile``; torch/_dynamo/config.py. Where a package of precompiled
    code is loaded (torch/_dynamo/package.py, from 2.9 on), Dynamo attempts nothing.
    """
    config = sys.modules.get(f"{DYNAMO}.config")
    if getattr(config, "caching_precompile", False):
        return (
            "dynamo: packages of precompiled code are on (TORCH_CACHING_PRECOMPILE), and their "
            "graphs cannot be counted: run the gate with TORCH_CACHING_PRECOMPILE=0"
        )
    if os.environ.get("TORCHDYNAMO_DISABLE") == "1":
        why = "the environment variable TORCHDYNAMO_DISABLE is 1"
    elif getattr(config, "disable", False):
        why = "torch._dynamo.config.disable is set"
        if os.environ.get("TORCH_COMPILE_DISABLE"):
            why += ", by the environment variable TORCH_COMPILE_DISABLE"
    else:
        return None
    return f"dynamo: Dynamo is disabled ({why}), so no graph can be counted"


# The function that ``doctor`` tries the dynamo layer with.


class DynamoProbe:
    """A function with one graph break, called with two lengths of its input."""

    expected = "4 graphs = 1 entry + 1 after a break + 2 recompiles, 2 recompiles, 1 break"

    def prepare(self) -> Callable[[], object]:
        import torch

        def small(x: torch.Tensor) -> torch.Tensor:
            y = torch.sin(x)
            torch._dynamo.graph_break()
            return torch.cos(y)

        def run() -> None:
            compiled = torch.compile(small, backend="eager", dynamic=False)
            compiled(torch.ones(3))
            compiled(torch.ones(4))

        return run

    def about(self) -> str:
        import torch

        return f"torch {torch.__version__}"
