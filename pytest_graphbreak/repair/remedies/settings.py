"""Settings of torch let more code into a graph: they are tried together, before all else.

Before::

    scale = y.sum().item()

After: the same lines, and at the head of the program::

    torch._dynamo.config.capture_scalar_outputs = True

When not: a setting is for the whole process. On a device below Dynamo ``.item()`` as a node splits
the graph, so there rewrites come first. ``print`` as a reordered function is lost where torch
inlines the function that calls it: a run that loses a line is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pytest_graphbreak.model.record import Break
from pytest_graphbreak.repair.patch import Preamble, SourcePatch, switch
from pytest_graphbreak.repair.trial import Trial

_ORDERED: Final = "torch._dynamo.config.reorderable_logging_functions.add"


def _switched(name: str, what: str) -> SourcePatch:
    return SourcePatch(f"{name}: {what}", (switch(name),))


def _reordered(name: str) -> SourcePatch:
    """Return the patch by which torch calls a function of output when the graph has run."""
    module = name.rpartition(".")[0]
    load = (Preamble(f"import {module}"),) if module else ()
    edits = (*load, Preamble(f"{_ORDERED}({name})"))
    moves = f"what {name} writes comes after the graph"
    return SourcePatch(f"{name} runs after the graph", edits, moves=moves)


_NUMBERS: Final = _switched(
    "allow_unspec_int_on_nn_module", "numbers on modules are inputs of the graph"
)
_SCALARS: Final = _switched("capture_scalar_outputs", ".item() becomes a node of the graph")
_SHAPES: Final = _switched(
    "capture_dynamic_output_shape_ops", "sizes that depend on values stay in the graph"
)
_RNN: Final = _switched("allow_rnn", "LSTM, GRU and RNN go into the graph")
_SPARSE: Final = _switched("capture_sparse_compute", "sparse tensors go into the graph")
_AUTOGRAD: Final = _switched(
    "trace_autograd_ops", "backward() and torch.autograd.grad become nodes of the graph"
)
_WORDS: Final = (
    (_SCALARS, ("data", ".item", "tensor.item", "tolist", "branch")),
    (_SHAPES, ("dynamic shape", "nonzero", "unique", "mask")),
    (_reordered("print"), ("print(",)),
    (_reordered("warnings.warn"), ("warn(",)),
    (_RNN, ("lstm", "gru", "rnn")),
    (_SPARSE, ("sparse",)),
    (_AUTOGRAD, ("trace_autograd_ops",)),
)
"""The words of a break, or of its line, for which a setting may help."""


def propose(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    text = " ".join((item.reason, item.where.code, item.explanation, *item.hints)).lower()
    yield from (patch for patch, words in _WORDS if any(word in text for word in words))


def together(trial: Trial) -> Sequence[SourcePatch]:
    """Return the settings that may help a program, to be tried in one run."""
    patches = [patch for item in trial.record.breaks for patch in propose(item, trial)]
    patches += [_NUMBERS] if trial.record.recompile_list else []
    return list(dict.fromkeys(patches))
