"""The inductor layer: graphs that inductor compiled, or loaded from a cache; judged where named."""

from __future__ import annotations

from pytest_graphbreak.model.layer import GraphCause, Layer

LAYER = Layer(
    name="inductor",
    causes=(
        GraphCause("forward", "plain", plural="forward"),
        GraphCause("backward", "expected", plural="backward"),
        GraphCause("inference", "expected", plural="inference"),
        GraphCause("recompile", "repeat", falls_with="sources"),
    ),
    observer="pytest_graphbreak.layers.inductor.observer:InductorObserver",
    needs=("torch",),
    above="dynamo",
    breaks=True,
    judged=False,
    fewer="",
    look_for='another backend than "inductor", or fullgraph code that runs without the compiler',
    remedy="install a C++ compiler (g++): inductor compiles with it",
)
