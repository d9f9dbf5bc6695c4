"""CPU tensors in code that is compiled for another device: each cuts an xla graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_graphbreak.model.record import Break
from pytest_graphbreak.repair.patch import Preamble, Rewrite, SourcePatch
from pytest_graphbreak.repair.remedies.around import AROUND
from pytest_graphbreak.repair.remedies.programs import program
from pytest_graphbreak.repair.trial import Trial

_WRAPPER: Final = (
    program("on_device") + "\n\n\ntorch.compile = _graphbreak_around(_graphbreak_on_device)"
)


def propose(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """For an xla graph that was cut, with its cause as the reason."""
    if "CPU tensor" not in item.reason and "torch." not in item.reason:
        return
    if "torch.tensor(" in item.where.code:
        yield SourcePatch("a number is a number, no tensor", (Rewrite("number", item.where),))
    yield SourcePatch(
        "CPU tensors that the code holds are moved to the device", (AROUND, Preamble(_WRAPPER))
    )
