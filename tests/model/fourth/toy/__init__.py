"""The toy layer: what the toy compiler compiles for its card."""

from __future__ import annotations

from pytest_graphbreak.model.layer import Cause, Layer, Style

LAYER = Layer(
    name="toy",
    causes=(
        Cause("made", "plain", plural="made"),
        Cause("broken", told_by="break", plural="broken"),
        Cause("again", "again", told_by="recompile", plural="again"),
    ),
    observer="pytest_graphbreak.layers.toy.observer:ToyObserver",
    needs=("toycompiler",),
    breaks=True,
    probe="pytest_graphbreak.layers.toy.probe:ToyProbe",
    remedy="wind it up",
    style=Style("teal", "stroke-dasharray: 9 1;"),
)
