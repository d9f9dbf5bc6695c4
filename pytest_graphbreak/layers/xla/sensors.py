"""What is put into torch and torch_xla while a window is open.

Sensors are global to the process: they go in with the first open window and
come out with the last. A name that is not there becomes an error of the
observation, never a graph that nobody sees.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from operator import attrgetter
from types import ModuleType
from typing import Any, NamedTuple

from pytest_graphbreak.layers.patch import Patch
from pytest_graphbreak.layers.xla import private as native
from pytest_graphbreak.layers.xla.bridge import Bridge
from pytest_graphbreak.layers.xla.events import Recorder
from pytest_graphbreak.layers.xla.imports import ImportWatch


class Sensor(NamedTuple):
    """A function that is watched, by the names of the hooks of ``Bridge`` around it."""

    module: str
    chain: str
    before: str
    after: str
    purpose: str


BRIDGE = "torch_xla._dynamo.dynamo_bridge"
COPY = "torch_xla.core.dynamo_bridge"
"""``from`` the bridge ``import *``: where torch's openxla and tt look the bridge up."""

EXTRACT = "extract_compiled_graph"
SENSORS = (
    Sensor(BRIDGE, EXTRACT, "extracting", "extracted", "FX graphs are seen there"),
    Sensor(COPY, EXTRACT, "extracting", "extracted", "FX graphs are seen there"),
    Sensor(
        BRIDGE,
        "extract_graph_helper",
        "lowering",
        "lowered",
        "the xla graphs of an FX graph are seen there",
    ),
    Sensor(
        BRIDGE,
        "UnsupportedNodesCollector.run_node",
        "trying",
        "tried",
        "the nodes that split a graph are seen there",
    ),
    Sensor(
        BRIDGE,
        "InputCollector.run_node",
        "running",
        "ran",
        "the nodes that split a graph are seen there",
    ),
    Sensor(
        "_XLAC",
        "_xla_sync_multi",
        "settling",
        "settled",
        "inputs that are settled before a compiled program runs are seen there",
    ),
    Sensor(
        "torch.fx.graph_module",
        "_WrappedCall.__call__",
        "lazy.calling",
        "lazy.called",
        "graphs that a backend runs lazily are seen there",
    ),
    Sensor(
        "torch.fx.graph",
        "Graph.process_inputs",
        "lazy.interpreting",
        "lazy.interpreted",
        "graphs that a backend runs lazily are seen there",
    ),
    Sensor(
        "torch.autograd",
        "_engine_run_backward",
        "backward_begins",
        "backward_ends",
        "backward passes are seen there",
    ),
    Sensor(
        "torch._dynamo.output_graph",
        "OutputGraph.compile_and_call_fx_graph",
        "compiling",
        "compiled",
        "device graphs are tied to Dynamo's there",
    ),
)


class Sensors:
    """The sensors of this process, and what they recorded."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        self._bridge = Bridge(self.recorder)
        self._windows = 0
        self._reasons = 0
        self._imports = ImportWatch(self._attach)
        self._patches: dict[Sensor, Patch | None] = {}

    def acquire(self, reasons: bool) -> None:
        """One window more. Faults are kept in the recorder's ``errors``."""
        recorder = self.recorder
        with recorder.lock:
            self._windows += 1
            self._reasons += reasons
            if self._windows == 1:
                recorder.errors.clear()
                recorder.events.clear()
                self._imports.attach()
            if native.loaded():
                self._attach()
                recorder.drain()

    def release(self, reasons: bool) -> None:
        with self.recorder.lock:
            self._windows -= 1
            self._reasons -= reasons
            if not self._reasons:
                self.recorder.guard(self.recorder.debug.disarm)
            if self._windows == 0:
                self._detach()

    def _attach(self) -> None:
        """Put in what is not in yet and can be: torch_xla may be half imported."""
        recorder = self.recorder
        if not recorder.meter.attached:
            recorder.guard(recorder.meter.attach)
            recorder.guard(recorder.begin)
        if self._reasons and recorder.debug.off:
            recorder.guard(recorder.debug.arm)
        for sensor in SENSORS:
            if sensor not in self._patches and sensor.module in sys.modules:
                self._patches[sensor] = recorder.guard(self._patch, sensor)

    def _patch(self, sensor: Sensor) -> Patch | None:
        module: ModuleType = sys.modules[sensor.module]
        owner: Any = module
        *path, name = sensor.chain.split(".")
        for step in path:
            owner = getattr(owner, step, None)
        if not hasattr(owner, name):
            raise native.Missing(f"{sensor.module} has no {sensor.chain}: {sensor.purpose}")
        ours = [patch.patched for patch in self._patches.values() if patch is not None]
        if getattr(owner, name) in ours:
            return None  # copied from a module that is watched already
        before: Callable[..., Any] = attrgetter(sensor.before)(self._bridge)
        after: Callable[..., Any] = attrgetter(sensor.after)(self._bridge)
        guard = self.recorder.guard
        return Patch(
            owner,
            name,
            lambda args: guard(before, args),
            lambda token, result: guard(after, token, result),
        )

    def _detach(self) -> None:
        self._imports.detach()
        self.recorder.guard(self.recorder.meter.detach)
        copy = sys.modules.get(COPY)
        for patch in reversed(self._patches.values()):
            if patch is None:
                continue
            if getattr(copy, patch.attribute, None) is patch.patched:
                setattr(copy, patch.attribute, patch.original)  # imported while we watched
            patch.remove()
        self._patches.clear()
        self._bridge.forget()
        self.recorder.backward.clear()
