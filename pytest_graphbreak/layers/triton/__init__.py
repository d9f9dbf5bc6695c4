"""The triton layer: kernels that Triton compiled just in time, outside of inductor.

Judged where it is named. Inductor's own kernels are compiled by workers: they belong to its graphs.
"""

from __future__ import annotations

from pytest_graphbreak.model.layer import GraphCause, Layer

LAYER = Layer(
    name="triton",
    causes=(
        GraphCause("kernel", "plain"),
        GraphCause("recompile", "repeat", explained_by="recompile"),
    ),
    observer="pytest_graphbreak.layers.triton.observer:TritonObserver",
    needs=("torch", "triton"),
    judged=False,
    look_for="a kernel that is launched no more",
    remedy="docs/how-to/serving.md says what is counted",
)
