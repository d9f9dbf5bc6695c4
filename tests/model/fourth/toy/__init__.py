"""The toy layer: what the toy compiler compiles for its card."""

from __future__ import annotations

from pytest_graphbreak.model.layer import GraphCause, Layer

LAYER = Layer(
    name="toy",
    causes=(
        GraphCause("made", "plain", plural="made"),
        GraphCause("broken", explained_by="break", plural="broken"),
        GraphCause("again", "repeat", explained_by="recompile", plural="again"),
    ),
    observer="pytest_graphbreak.layers.toy.observer:ToyObserver",
    needs=("toycompiler",),
    breaks=True,
    probe="pytest_graphbreak.layers.toy.probe:ToyProbe",
    remedy="wind it up",
)
