"""Settings of torch that let more code into a graph: they are tried together, before all else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pytest_graphbreak.repair.patch import Preamble, SourcePatch, switch
from pytest_graphbreak.repair.trial import Trial

_ORDERED: Final = "torch._dynamo.config.reorderable_logging_functions.add"
_PATCHES: Final = (
    SourcePatch(
        "capture_scalar_outputs: .item() becomes a node of the graph",
        (switch("capture_scalar_outputs"),),
    ),
    SourcePatch(
        "capture_dynamic_output_shape_ops: sizes that depend on values stay in the graph",
        (switch("capture_dynamic_output_shape_ops"),),
    ),
    SourcePatch(
        "numbers on modules are inputs of the graph", (switch("allow_unspec_int_on_nn_module"),)
    ),
    SourcePatch(
        "print runs after the graph",
        (Preamble(f"{_ORDERED}(print)"),),
        moves="what print writes comes after the graph",
    ),
    SourcePatch(
        "warnings.warn runs after the graph",
        (Preamble(f"import warnings\n{_ORDERED}(warnings.warn)"),),
        moves="what warnings.warn writes comes after the graph",
    ),
    SourcePatch("LSTM, GRU and RNN go into the graph", (switch("allow_rnn"),)),
)
_AUTOGRAD: Final = SourcePatch(
    "trace_autograd_ops: backward() and torch.autograd.grad become nodes of the graph",
    (switch("trace_autograd_ops"),),
)


def propose(trial: Trial) -> Sequence[SourcePatch]:
    breaks = trial.record.breaks
    hints = [text for one in breaks for text in (one.explanation, *one.hints)]
    words = [f"{one.reason} {one.where.code}".lower() for one in breaks]
    scalar, shape, number, prints, warns, rnn = _PATCHES
    wanted = [
        (scalar, ("data", ".item", "tensor.item", "tolist", "branch")),
        (shape, ("dynamic shape", "nonzero", "unique", "mask")),
        (prints, ("print(",)),
        (warns, ("warn(",)),
        (rnn, ("lstm", "gru", "rnn")),
    ]
    patches = [patch for patch, keys in wanted if any(k in word for k in keys for word in words)]
    patches += [number] if trial.record.recompile_list else []
    return [*patches, _AUTOGRAD] if any("trace_autograd_ops" in one for one in hints) else patches
