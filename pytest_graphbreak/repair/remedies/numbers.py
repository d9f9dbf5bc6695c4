"""Numbers that code reads from small inputs, such as sizes of images: constants of the graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_graphbreak.model.record import Break
from pytest_graphbreak.repair.patch import Preamble, Rewrite, SourcePatch
from pytest_graphbreak.repair.remedies.around import ARGUMENTS, AROUND
from pytest_graphbreak.repair.remedies.programs import program
from pytest_graphbreak.repair.trial import Trial

CONSTANTS: Final = (
    AROUND,
    ARGUMENTS,
    Preamble(program("constants")),
    Preamble("torch.compile = _graphbreak_around(_graphbreak_by_case)"),
)


def decides(item: Break) -> bool:
    """Whether the numbers decide how many pieces there are, and of which size.

    As nodes of the graph they would only move the break to what is done with the pieces.
    """
    code = item.where.code
    loops = ".tolist()" in code and ("for " in code or "split(" in code)
    return loops or "repeat_interleave(" in code


def propose(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Sound for any input: the graph is for the values that it checks, and raises for others.

    Only for sizes and lengths, which code works out of its arguments and writes nothing
    into: Dynamo reads the values before it knows what is written in place, so those of a
    mask that was written into are not the ones that the graph has.
    """
    if decides(item):
        yield SourcePatch(
            "the numbers are constants of the graph, which checks them",
            (*CONSTANTS, Rewrite("constants", item.where)),
            note="compiled anew for other values of small integer inputs; where the numbers change "
            "with another input, the graph raises RuntimeError",
        )
