"""The sensors that are put into torch and torch_xla while a window is open.

``SENSORS`` are the functions that are watched, ``_hooks`` what is called before and after each:
methods of ``bridge`` (FX graphs that torch_xla's bridge lowers), ``unbridged`` (FX graphs that a
backend runs itself) and ``executions`` (lines that run graphs). They hand what they see to the
``Recorder`` (``events``), which windows read.

Sensors are global to the process: they go in with the first open window and come out with the last.
Windows and the isolation of tests call ``acquire`` and ``release``. A name that is missing becomes
an error of the observation, never a graph that nobody sees.
"""

from __future__ import annotations

import sys
from typing import Any, Final, NamedTuple

from pytest_graphbreak.layers.dynamo.private import BACKEND
from pytest_graphbreak.layers.hooks import After, Before, Patch, RuntimePatch
from pytest_graphbreak.layers.imports import ImportWatch, is_installed, is_whole, loaded
from pytest_graphbreak.layers.locks import READER_WAIT, SensorLock
from pytest_graphbreak.layers.private_names import MissingName, locate
from pytest_graphbreak.layers.xla import private as native
from pytest_graphbreak.layers.xla.bridge import Bridge
from pytest_graphbreak.layers.xla.events import Recorder
from pytest_graphbreak.model.places import Places


class Sensor(NamedTuple):
    """A function that is watched: ``chain`` inside of ``module``, and what is seen there."""

    module: str
    chain: str
    purpose: str


BRIDGE: Final = native.BRIDGE
COPY: Final = "torch_xla.core.dynamo_bridge"
"""The module that imports all names of the bridge: torch's openxla and tt look them up there."""

_SPLITS: Final = "the nodes that split a graph are seen there"
_UNBRIDGED: Final = "graphs that a backend runs lazily are seen there"

EXTRACT = Sensor(BRIDGE, "extract_compiled_graph", "FX graphs are seen there")
EXTRACT_COPY = EXTRACT._replace(module=COPY)
LOWER = Sensor(BRIDGE, "extract_graph_helper", "the xla graphs of an FX graph are seen there")
TRY_NODE = Sensor(BRIDGE, "UnsupportedNodesCollector.run_node", _SPLITS)
RUN_NODE = Sensor(BRIDGE, "InputCollector.run_node", _SPLITS)
SETTLE = Sensor(
    "_XLAC",
    "_xla_sync_multi",
    "inputs that are settled before a compiled program runs are seen there",
)
RUN_CACHED = Sensor(
    "_XLAC", "_run_cached_graph", "the lines that run compiled graphs are seen there"
)
CALL_MODULE = Sensor("torch.fx.graph_module", "_WrappedCall.__call__", _UNBRIDGED)
INTERPRET = Sensor("torch.fx.graph", "Graph.process_inputs", _UNBRIDGED)
BACKWARD = Sensor("torch.autograd", "_engine_run_backward", "backward passes are seen there")
COMPILE = Sensor(
    BACKEND.module,
    "OutputGraph.compile_and_call_fx_graph",
    "device graphs are tied to Dynamo's there",
)
MARK = Sensor("_XLAC", "_xla_step_marker", "the lines that sync are seen there")
SENSORS: Final = tuple(sensor for sensor in [*vars().values()] if isinstance(sensor, Sensor))
"""All of them, the functions of the bridge before their copies, which are patched only if new."""
ONLY_FOR_RUNS: Final = (MARK, RUN_CACHED)
"""The sensors that only runs need."""


def _hooks(bridge: Bridge, recorder: Recorder) -> dict[Sensor, tuple[Before, After | None]]:
    """Return what is done before and after each function."""
    unbridged, executions = bridge.unbridged, recorder.executions

    # A sync of the user's is where what it compiled is noted; the bridge's own syncs are noted by
    # the hooks of the bridge.
    def after_mark(before: tuple[int, int] | None, result: Any) -> None:
        if executions.after_sync(before, result):
            recorder.note_if_compiled()

    syncs = executions.before_sync, executions.after_sync
    lowers = executions.before_lower, executions.after_lower
    return {
        EXTRACT: _both((bridge.before_extract, bridge.after_extract), lowers),
        EXTRACT_COPY: _both((bridge.before_extract, bridge.after_extract), lowers),
        LOWER: _both((bridge.before_lower, bridge.after_lower), lowers),
        TRY_NODE: (bridge.before_node, bridge.after_node),
        RUN_NODE: (bridge.before_bridge_node, bridge.after_bridge_node),
        SETTLE: _both((bridge.before_settle, bridge.after_settle), syncs),
        RUN_CACHED: (executions.before_call, None),
        CALL_MODULE: (unbridged.before_call, unbridged.after_call),
        INTERPRET: (unbridged.before_interpret, None),
        BACKWARD: (bridge.before_backward, bridge.after_backward),
        COMPILE: (bridge.before_compile, bridge.after_compile),
        MARK: (executions.before_sync, after_mark),
    }


def _both(outer: tuple[Before, After], inner: tuple[Before, After]) -> tuple[Before, After]:
    """Return the hooks of a function that has two pairs, the second inside of the first."""

    def before(args: tuple[Any, ...]) -> tuple[Any, Any]:
        return outer[0](args), inner[0](args)

    def after(tokens: tuple[Any, Any] | None, result: Any) -> None:
        if tokens is not None:
            inner[1](tokens[1], result)
            outer[1](tokens[0], result)

    return before, after


class XlaSensors:
    """The sensors of this process, and what they recorded."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        self._bridge = Bridge(self.recorder)
        self._hooks = _hooks(self._bridge, self.recorder)
        self._lock = SensorLock()
        self._windows = 0
        """The windows that are open; with the last one everything is put back."""
        self._reasons = 0
        """How many of them explain graphs: torch_xla reports compilations as long as one does."""
        self._run_places: Places | None = None
        """Names the user's frames, if a window counts runs; else None."""
        self._imports = ImportWatch((*native.IMPORTED, BRIDGE), self._attach)
        self._patches: dict[Sensor, Patch | None] = {}
        """What was put in for each sensor; None where nothing could be or had to be."""

    def acquire(self, reasons: bool, run_places: Places | None = None) -> None:
        """Count one more open window. Faults are kept in the recorder's ``errors``.

        ``run_places`` names the user's frames where runs are counted.
        """
        recorder = self.recorder
        with self._lock:
            self._windows += 1
            self._run_places = run_places or self._run_places
            self._reasons += reasons
            if self._windows == 1:
                recorder.forget()
                if is_installed("torch_xla"):
                    self._imports.attach()
            if native.is_loaded():
                self._attach()
                recorder.note_compiled(patience=READER_WAIT)  # no new window has what was before

    def release(self, reasons: bool) -> None:
        with self._lock:
            self._windows -= 1
            self._reasons -= reasons
            if not self._reasons:
                self.recorder.guard(self.recorder.debug.disarm)
            if self._windows == 0:
                self._detach()

    def _attach(self) -> None:
        """Put in the sensors that are missing and can be put in: torch_xla may be half imported."""
        recorder = self.recorder
        if not recorder.meter.is_attached:
            recorder.guard(recorder.meter.attach)
            recorder.guard(recorder.begin)
        if self._reasons and recorder.debug.off:
            recorder.guard(recorder.debug.arm)
        if self._run_places is not None:
            recorder.guard(recorder.executions.attach, self._run_places)
        for sensor in SENSORS:
            is_needed = self._run_places is not None or sensor not in ONLY_FOR_RUNS
            if is_needed and sensor not in self._patches and _has_run(sensor):
                self._patches[sensor] = recorder.guard(self._patch, sensor)

    def _patch(self, sensor: Sensor) -> Patch | None:
        try:
            owner, name = locate(loaded(sensor.module), sensor.chain)
        except AttributeError:
            missing = f"{sensor.module} has no {sensor.chain}: {sensor.purpose}"
            raise MissingName(missing) from None
        ours = [patch.patched for patch in self._patches.values() if patch is not None]
        if getattr(owner, name) in ours:
            return None  # ``COPY`` was imported after ``BRIDGE`` was patched, and has our function
        before, after = self._hooks[sensor]
        return RuntimePatch(owner, name, before, after, self.recorder.failed)

    def _detach(self) -> None:
        self._imports.detach()
        self.recorder.guard(self.recorder.meter.detach)
        self.recorder.guard(self.recorder.executions.detach)
        self._run_places = None
        copy = sys.modules.get(COPY)
        for patch in reversed(self._patches.values()):
            if patch is None:
                continue
            if getattr(copy, patch.attribute, None) is patch.patched:
                setattr(copy, patch.attribute, patch.original)  # imported while we watched
            patch.remove()
        self._patches.clear()
        self._bridge.forget()


def _has_run(sensor: Sensor) -> bool:
    """Return whether a module is loaded, and has come to the function or to its end.

    ``sys.modules`` also lists a module that another thread has begun to import.
    """
    module = loaded(sensor.module)
    first = sensor.chain.partition(".")[0]
    return module is not None and (hasattr(module, first) or is_whole(sensor.module))
