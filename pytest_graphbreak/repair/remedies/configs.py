"""Switches of Dynamo that let more into a graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_graphbreak import advice
from pytest_graphbreak.model.record import Break
from pytest_graphbreak.repair.patch import SourcePatch, switch
from pytest_graphbreak.repair.trial import Trial

SCALARS: Final = switch("capture_scalar_outputs")
SHAPES: Final = switch("capture_dynamic_output_shape_ops")

_SCALARS: Final = ("item", "tolist", "compare", "unbacked", "loop", "assert", "one-hot")
_SHAPES: Final = ("nonzero", "mask", "one-hot", "unbacked")
_OTHERS: Final = {
    "rnn": ("LSTM, GRU and RNN go into the graph", switch("allow_rnn")),
    "sparse": ("sparse tensors go into the graph", switch("capture_sparse_compute")),
}


def propose(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    family = advice.family(item)
    name = family.name if family else ""
    data = "data dependent" in item.reason.lower() or "data-dependent" in item.reason.lower()
    if name in _SCALARS or data:
        yield SourcePatch("capture_scalar_outputs: .item() becomes a node of the graph", (SCALARS,))
    if name in _SHAPES or "dynamic shape" in item.reason.lower():
        yield SourcePatch(
            "capture_dynamic_output_shape_ops: sizes that hang on values stay in the graph",
            (SHAPES,),
        )
        yield SourcePatch(
            "capture_dynamic_output_shape_ops and capture_scalar_outputs", (SHAPES, SCALARS)
        )
    if name in _OTHERS:
        title, line = _OTHERS[name]
        yield SourcePatch(title, (line,))
