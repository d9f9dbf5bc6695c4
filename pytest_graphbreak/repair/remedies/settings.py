"""A setting of torch lets more code into a graph: one line where the program compiles.

Before::

    f = torch.compile(f)

After::

    torch._dynamo.config.capture_scalar_outputs = True
    f = torch.compile(f)

When not: a setting is for the whole process. On a device below Dynamo ``.item()`` as a node splits
the graph; ``print`` as a reordered function is lost where torch inlines the function that calls
it. A run that shows either is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

from pytest_graphbreak.model.record import Break, Frame
from pytest_graphbreak.repair.patch import COMPILES, Change, SourcePatch
from pytest_graphbreak.repair.rewrite.compiles import with_setting
from pytest_graphbreak.repair.rewrite.tree import parse
from pytest_graphbreak.repair.trial import Trial

_ORDERED: Final = "torch._dynamo.config.reorderable_logging_functions.add"


@cache
def _setting(line: str) -> Change:
    def change(source: str, where: Frame) -> str | None:
        return with_setting(parse(source), line)

    return change


def switch(name: str, what: str) -> SourcePatch:
    """Return the patch that sets a config of Dynamo."""
    line = f"torch._dynamo.config.{name} = True"
    return SourcePatch(f"{name}: {what}", _setting(line), COMPILES)


def _reordered(name: str) -> SourcePatch:
    """Return the patch by which torch calls a function of output when the graph has run."""
    change = _setting(f"{_ORDERED}({name})")
    note = f"what {name} writes comes after the graph"
    return SourcePatch(f"{name} runs after the graph", change, COMPILES, note)


_NUMBERS: Final = switch(
    "allow_unspec_int_on_nn_module", "numbers on modules are inputs of the graph"
)
_SCALARS: Final = switch("capture_scalar_outputs", ".item() becomes a node of the graph")
_SHAPES: Final = switch(
    "capture_dynamic_output_shape_ops", "sizes that depend on values stay in the graph"
)
_RNN: Final = switch("allow_rnn", "LSTM, GRU and RNN go into the graph")
_WORDS: Final = (
    (_SCALARS, ("data", ".item", "tensor.item", "tolist", "branch")),
    (_SHAPES, ("dynamic shape", "nonzero", "unique", "mask")),
    (_reordered("print"), ("print(",)),
    (_reordered("warnings.warn"), ("warn(",)),
    (_RNN, ("lstm", "gru", "rnn")),
)
"""The words of a break, or of its line, for which a setting may help."""


def propose(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    text = " ".join((item.reason, item.where.code, item.explanation, *item.hints)).lower()
    yield from (patch for patch, words in _WORDS if any(word in text for word in words))


def recompiles(trial: Trial) -> Iterator[SourcePatch]:
    yield _NUMBERS
