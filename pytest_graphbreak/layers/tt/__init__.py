"""The tt layer: programs that the TT compiler began to lower. Its causes are those of xla."""

from __future__ import annotations

from pytest_graphbreak.layers.xla import CAUSES, LOOK_FOR
from pytest_graphbreak.model.layer import Layer

LAYER = Layer(
    name="tt",
    causes=CAUSES,
    observer="pytest_graphbreak.layers.tt.observer:TTObserver",
    needs=("torch", "torch_xla", "pjrt_plugin_tt"),
    above="xla",
    backend="tt",
    probe="pytest_graphbreak.layers.tt.observer:TTProbe",
    look_for=LOOK_FOR,
    remedy="docs/how-to/tt-hardware.md has the steps; graphbreak analyze reads its log",
)
