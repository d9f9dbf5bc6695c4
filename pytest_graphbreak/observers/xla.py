"""The xla layer: computations that the PJRT client compiled through torch_xla.

A graph is one compilation, counted by torch_xla's ``CompileTime`` metric: lazy
tensors, ``openxla``, forward and backward, in every thread. ``xla_meter`` reads
it, ``xla_salt`` keeps the counts of tests apart, ``xla_sensors`` notes what was
going on, ``xla_causes`` says of each graph why it exists; ``xla_native`` holds
the names of torch_xla that are called.
"""

from __future__ import annotations

from pytest_graphbreak.observers import xla_native as native
from pytest_graphbreak.observers import xla_salt
from pytest_graphbreak.observers.xla_causes import LAYER, explain, is_recompile
from pytest_graphbreak.observers.xla_meter import CLEARED
from pytest_graphbreak.observers.xla_sensors import Sensors
from pytest_graphbreak.places import Places
from pytest_graphbreak.record import Observation, Recompile

UNFOLLOWED = (
    "torch_xla was imported in a way that could not be followed while the graphs were counted: "
    "import it at the top of the file"
)

_sensors = Sensors()
_recorder = _sensors.recorder
_salt = xla_salt.Salt()


class XlaObserver:
    """Watches the xla layer. Safe to use where torch_xla is not installed.

    Without ``reasons`` graphs are counted and not explained: ``graph_list`` is
    empty, and torch_xla is not asked to report its compilations.
    """

    layer = LAYER

    def __init__(self, reasons: bool = True) -> None:
        self.reasons = reasons
        self._isolation: _Isolation | None = None

    def open(self, places: Places) -> XlaWindow:
        isolation, self._isolation = self._isolation, None
        return XlaWindow(places, self.reasons, isolation)

    def isolate(self, key: str) -> None:
        """Settle what earlier code left on the device, and give ``key`` a cache of its own.

        Lasts until the next window closes. Computes what an earlier test left
        pending (its compilations are charged to nobody).
        """
        if not native.loaded():
            return
        if self._isolation is not None:  # never opened: the test was skipped
            self._isolation.end()
        self._isolation = _Isolation(key, self.reasons)


class _Isolation:
    """One test kept apart from the others, from ``isolate`` to the end of its window."""

    def __init__(self, key: str, reasons: bool) -> None:
        self.errors: list[str] = []
        self._salt: str | None = None
        # What is flushed may be the first compilation of the process: after it
        # torch_xla would never ask again where to report.
        _sensors.acquire(reasons)
        try:
            if native.client_open():
                with _recorder.uncounted():
                    native.flush()
                native.wait()
        except Exception as error:
            text = str(error).strip().split("\n")[0]
            kind = "" if isinstance(error, native.Missing) else f"{type(error).__name__}: "
            self.errors.append(f"the device could not be settled before this test: {kind}{text}")
        finally:
            _sensors.release(reasons)
        if xla_salt.enabled():
            self._salt = _salt.push(key)

    def end(self) -> None:
        if self._salt is not None:
            _salt.pop(self._salt)
            self._salt = None


class XlaWindow:
    """One stretch of time on the xla layer."""

    def __init__(self, places: Places, reasons: bool, isolation: _Isolation | None) -> None:
        self._places = places
        self._reasons = reasons
        self._isolation = isolation
        self._closed = False
        self._last: Observation | None = None
        _sensors.acquire(reasons)
        self._start = (_recorder.graphs, len(_recorder.events), _recorder.meter.gaps)

    def peek(self) -> Observation | None:
        if self._closed:
            return self._last
        return self._observe() if native.loaded() else None

    def close(self) -> Observation | None:
        if self._closed:
            return self._last
        self._last = self.peek()
        self._closed = True
        _sensors.release(self._reasons)
        if self._isolation is not None:
            self._isolation.end()
        return self._last

    def _observe(self) -> Observation:
        _recorder.drain()
        graphs, first, gaps = self._start
        events = _recorder.events[first:]
        explained = _recorder.guard(explain, events, self._places) if self._reasons else []
        notes = _recorder.guard(_left_pending) if self._isolation is not None else ()
        errors = [*(self._isolation.errors if self._isolation else ()), *_recorder.errors]
        if not errors and not _recorder.meter.attached:
            errors.append(UNFOLLOWED)
        if _recorder.meter.gaps != gaps:
            errors.append(CLEARED)
        again = [number for number, event in enumerate(events) if is_recompile(event)]
        return Observation(
            LAYER,
            graphs=max(0, _recorder.graphs - graphs),
            recompiles=len(again),
            recompile_list=tuple(
                Recompile(LAYER, graph.name, graph.reason, graph.where)
                for graph in (explained[number] for number in again if explained)
            ),
            graph_list=tuple(explained or ()),
            errors=tuple(dict.fromkeys(errors)),
            notes=tuple(notes or ()),
        )


def _left_pending() -> list[str]:
    waiting = native.pending()
    if not waiting:
        return []
    one = waiting == 1
    what = "1 tensor is" if one else f"{waiting} tensors are"
    them = "it" if one else "them"
    return [f"{what} left pending on the xla device: the graph that computes {them} is not counted"]
