"""The xla layer: computations that the PJRT client compiled through torch_xla.

A graph is one compilation, counted by torch_xla's ``CompileTime`` metric (``meter``): lazy tensors,
``openxla``, forward and backward, in every thread. ``sensors`` puts hooks into torch and torch_xla
(``bridge``, ``unbridged``), which describe the FX graphs that are lowered (``fx``, ``naming``).
``events`` notes each compilation with what was going on, and with what torch_xla reports of it
(``debug_file``, ``reports``). ``explain`` says of each graph why it exists, ``lazy`` where no FX
graph is behind it. ``executions`` counts runs of graphs and reads of values. ``isolation`` keeps
tests apart; ``private`` holds the names of torch_xla that are called.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from msgspec.structs import replace

from pytest_graphbreak.layers.faults import or_else
from pytest_graphbreak.layers.imports import ImportWatch, is_installed
from pytest_graphbreak.layers.locks import READER_WAIT
from pytest_graphbreak.layers.private_names import MissingName
from pytest_graphbreak.layers.protocol import Observer, WindowBase
from pytest_graphbreak.layers.xla import private as native
from pytest_graphbreak.layers.xla.executions import Moment
from pytest_graphbreak.layers.xla.explain import LAYER, explain, is_recompile
from pytest_graphbreak.layers.xla.isolation import AT_WORK, Isolation, settle
from pytest_graphbreak.layers.xla.meter import CLEARED
from pytest_graphbreak.layers.xla.sensors import XlaSensors
from pytest_graphbreak.model.items import Graph, Recompile
from pytest_graphbreak.model.merging import record_of
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.text.numbers import plural

UNFOLLOWED = (
    "torch_xla was imported in a way that could not be followed while the graphs were counted: "
    "import it at the top of the file"
)

LOADED: Final = (
    "torch_xla's persistent cache had {} of this test, and what is loaded cannot be counted: "
    "give xr.initialize_cache an empty directory for each gated run"
)

_sensors = XlaSensors()
_recorder = _sensors.recorder


class XlaObserver(Observer):
    """Watches the xla layer. Safe to use even if torch_xla is not installed.

    Without ``reasons`` graphs are counted and not explained: ``graph_list`` is empty, and torch_xla
    is not asked to report its compilations. ``measuring.measure`` sets that and ``runs`` anew.
    """

    layer = LAYER

    def __init__(self, reasons: bool = True) -> None:
        self.reasons = reasons
        self._isolation: Isolation | None = None

    def open(self, places: Places) -> XlaWindow:
        isolation, self._isolation = self._isolation, None
        return XlaWindow(places, self.reasons, isolation, self.runs)

    def isolate(self, key: str) -> None:
        """Settle what earlier code left on the device, and give ``key`` a cache of its own.

        It lasts until the next window closes. What an earlier test left pending is computed (its
        compilations are charged to nobody).
        """
        if self._isolation is not None:  # never opened: the test was skipped
            self._isolation.end()
        self._isolation = Isolation(key, self.reasons, _sensors)

    def follows_fork(self) -> bool:
        """Return False if the device is open: only the parent's threads can use it."""
        return not self.defers()

    def when_silent(self, call: Callable[[], None]) -> None:
        """Call ``call`` once torch_xla is loaded: reading a value compiles, without any notice."""
        if native.is_loaded():
            call()
            return
        if not is_installed("torch_xla"):
            return

        def on_import() -> None:
            imports.detach()
            call()

        imports = ImportWatch(native.IMPORTED, on_import)
        imports.attach()

    def defers(self) -> bool:
        """Return whether the device is open: what was asked of it may be compiled at exit."""
        with suppress(MissingName):
            return native.is_loaded() and native.is_client_open()
        return False


class _Mark(NamedTuple):
    """How many graphs, events and loaded graphs there were at one moment, and what had run."""

    graphs: int
    events: int
    loaded: int
    ran: Moment


class XlaWindow(WindowBase):
    """One stretch of time on the xla layer."""

    def __init__(
        self, places: Places, reasons: bool, isolation: Isolation | None, runs: bool
    ) -> None:
        self._runs = runs
        self._places = places
        self._reasons = reasons
        self._isolation = isolation
        _sensors.acquire(reasons, run_places=places if runs else None)
        self._missed_clearings = _recorder.meter.missed_clearings
        self._late_notes: list[str] = []
        """What was noticed as it closed."""
        self._settle()
        self._spans: list[tuple[_Mark, _Mark]] = []
        """Where the stretches of this window that are over began and ended."""
        self._began: _Mark | None = self._mark()
        """Where the present one began; None while a fixture of wider scope is left out."""

    def close(self) -> Record | None:
        try:
            if self._is_open and not self._settle():
                self._late_notes.append(AT_WORK.format("after"))
        finally:
            record = super().close()
        return record

    def _settle(self) -> bool:
        """Wait until what was asked of the devices has run; return whether it has.

        ``peek`` does not: a compilation may be the caller, in the middle of the user's code.
        """
        if not (self._runs and native.is_loaded()):
            return True
        # Work that failed: the user's code is told by torch_xla, too.
        return or_else(True, settle)

    def _look(self) -> Record | None:
        return self._observe() if native.is_loaded() else None

    @contextmanager
    def exclude(self) -> Iterator[None]:
        self._settle()
        self._spans, self._began = self._spans_so_far(), None
        try:
            if self._isolation is not None:
                with self._isolation.exclude():
                    yield
            else:
                yield
        finally:
            self._settle()
            self._began = self._mark()

    def _mark(self) -> _Mark:
        """Return how much there was up to now."""
        moment = None
        if native.is_loaded():
            _recorder.note_compiled(patience=READER_WAIT)
            moment = _recorder.guard(_recorder.executions.mark) if self._runs else None
        return _Mark(
            graphs=_recorder.graphs,
            events=len(_recorder.events),
            loaded=_recorder.loaded,
            ran=moment or Moment(),
        )

    def _spans_so_far(self) -> list[tuple[_Mark, _Mark]]:
        """Return where all stretches of this window begin and end, the present one here."""
        present = [] if self._began is None else [(self._began, self._mark())]
        return [*self._spans, *present]

    def _leave(self) -> None:
        _sensors.release(self._reasons)
        if self._isolation is not None:
            self._isolation.end()

    def _observe(self) -> Record:
        spans = self._spans_so_far()
        graphs = sum(end.graphs - begin.graphs for begin, end in spans)
        loaded = sum(end.loaded - begin.loaded for begin, end in spans)
        events = [
            event for begin, end in spans for event in _recorder.events[begin.events : end.events]
        ]
        seen = _recorder.guard(explain, events, self._places) if self._reasons else None
        explained, repeats = seen or ([], set())
        again = [n for n, event in enumerate(events) if n in repeats or is_recompile(event)]
        ran = _recorder.executions.totals((begin.ran, end.ran) for begin, end in spans)
        lines = _recorder.guard(_recorder.executions.lines, ran, self._places)
        ran_by, read_by = lines or ((), ())
        isolation = self._isolation
        errors, notes = isolation.doubts(graphs, explained) if isolation else ([], [])
        record = record_of(
            LAYER,
            graphs=graphs,
            recompiles=len(again),
            recompile_list=(_recompile(explained[number]) for number in again if explained),
            graph_list=explained,
            errors=[*errors, *self._uncounted(errors, loaded)],
            notes=(*notes, *self._late_notes),
        )
        if not self._runs:
            return record
        return replace(
            record,
            executions={LAYER: ran.executions},
            reads={LAYER: ran.reads},
            execution_list=tuple(ran_by),
            read_list=tuple(read_by),
        )

    def _uncounted(self, errors: Sequence[str], loaded: int) -> Iterator[str]:
        """Yield what could not be counted, besides these ``errors``; ``loaded`` from a cache."""
        yield from _recorder.errors
        # Any other error may be why the meter is not attached, and says more.
        if not errors and not _recorder.errors and not _recorder.meter.is_attached:
            yield UNFOLLOWED
        if _recorder.meter.missed_clearings != self._missed_clearings:
            yield CLEARED
        if loaded:
            yield LOADED.format(plural(loaded, "graph"))


def _recompile(graph: Graph) -> Recompile:
    above, took = graph.stack[:-1], graph.seconds
    return Recompile(LAYER, graph.name, graph.reason, graph.where, above, seconds=took)


# The function that ``doctor`` tries the xla layer with, and layers that torch_xla leads to.


class XlaProbe:
    """A function of one graph. The CPU will do, unless a device is named."""

    expected = "1 graph = 1 fx"
    backend = "openxla"

    def prepare(self) -> Callable[[], object]:
        # This takes no device from anybody.
        os.environ.setdefault("PJRT_DEVICE", "CPU")
        import torch
        import torch_xla

        x = torch.ones(3, 5).to(torch_xla.device())
        torch_xla.sync(wait=True)

        def run() -> None:
            torch.compile(torch.sin, backend=self.backend)(x)
            torch_xla.sync(wait=True)

        return run

    def about(self) -> str:
        import torch_xla

        return f"torch_xla {torch_xla.__version__} on {os.environ['PJRT_DEVICE']}"
