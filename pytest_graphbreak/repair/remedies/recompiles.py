"""Recompiles: what varies from call to call becomes an input of the graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from pytest_graphbreak import advice
from pytest_graphbreak.repair.patch import Preamble, SourcePatch, switch
from pytest_graphbreak.repair.remedies import shapes
from pytest_graphbreak.repair.remedies.around import AROUND
from pytest_graphbreak.repair.remedies.programs import program
from pytest_graphbreak.repair.trial import Trial

DYNAMIC: Final = switch("assume_static_by_default", "False")
_OBLIVIOUS: Final = switch("backed_size_oblivious", home="torch.fx.experimental._config")
_TENSORS: Final = (
    AROUND,
    Preamble(
        program("numbers")
        + "\n\n\ntorch.compile = _graphbreak_around(_graphbreak_numbers_as_tensors)"
    ),
)


def propose(trial: Trial) -> Iterator[SourcePatch]:
    families = {
        found.name for item in trial.record.recompile_list if (found := advice.family(item))
    }
    marked, padded = list(shapes.mark(trial)), list(shapes.pad(trial))
    yield from marked
    yield SourcePatch("dynamic=True: sizes and numbers are inputs of the graph", (DYNAMIC,))
    if families & {"attribute", "value"}:
        number = switch("allow_unspec_int_on_nn_module")
        yield SourcePatch("numbers on modules are inputs of the graph", (number,))
        yield SourcePatch("the same, from the first call on", (number, DYNAMIC))
    if families & {"zero-one", "size"}:
        load = Preamble("import torch.fx.experimental._config")
        yield SourcePatch(
            "dynamic=True, and sizes of 0 and 1 are like any other",
            (load, DYNAMIC, _OBLIVIOUS),
        )
    if families - {"size", "zero-one", "shape-branch", "stride"}:
        yield SourcePatch("Python floats that vary became tensors", _TENSORS)
    if trial.floats:  # a guard names what fails first: where sizes vary, no float
        yield SourcePatch(
            "dynamic=True, and Python floats that vary became tensors", (DYNAMIC, *_TENSORS)
        )
        yield from map(_with_floats, marked)
    yield from padded
    if trial.floats:
        yield from map(_with_floats, padded)


def _with_floats(patch: SourcePatch) -> SourcePatch:
    title = f"{patch.title}; Python floats that vary became tensors"
    return replace(patch, title=title, edits=(*patch.edits, *_TENSORS))
