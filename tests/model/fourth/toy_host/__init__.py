"""The toy_host layer: what the toy compiler compiles for the host; judged only where named."""

from __future__ import annotations

from pytest_graphbreak.model.layer import GraphCause, Layer

LAYER = Layer(
    name="toy_host",
    causes=(GraphCause("made", "plain", plural="made"),),
    observer="pytest_graphbreak.layers.toy_host.observer:HostObserver",
    needs=("toycompiler",),
    judged=False,
)
