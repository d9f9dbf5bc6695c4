"""The cudagraph layer: CUDA graphs that were captured, and their replays; judged where named.

A trace of a TT device is the same thing: commands that are captured once and replayed. It would be
this layer as well, once its log has a line for each end of a capture and for each replay, with the
trace's id and the line of Python, or the name of the program, that asked for it.
"""

from __future__ import annotations

from pytest_graphbreak.model.layer import GraphCause, Layer

LAYER = Layer(
    name="cudagraph",
    causes=(
        GraphCause("captured", "plain", plural="captured"),
        GraphCause("callable", "expected"),
        GraphCause("tree", "expected", words="by inductor", plural="by inductor"),
        GraphCause("recompile", "repeat", explained_by="recompile"),
    ),
    observer="pytest_graphbreak.layers.cudagraph.observer:CudaGraphObserver",
    needs=("torch",),
    judged=False,
    look_for="why inductor skips it (the eager entries of the inductor layer), a capture that is "
    "turned off, a size without a captured graph",
    remedy="docs/how-to/serving.md says what is counted",
)
