"""Numbers that code reads from small inputs, such as sizes of images: constants of the graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_graphbreak import advice
from pytest_graphbreak.model.record import Break
from pytest_graphbreak.repair.patch import Preamble, Rewrite, SourcePatch
from pytest_graphbreak.repair.remedies.around import ARGUMENTS, AROUND
from pytest_graphbreak.repair.remedies.programs import program
from pytest_graphbreak.repair.trial import Trial

_READ: Final = ("branch", "compare", "item", "loop", "tolist", "unbacked", "assert")
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
    """Sound for any input: the graph is for the values that it checks, and raises for others."""
    family = advice.family(item)
    reason = item.reason.lower()
    data = "data dependent" in reason or "data-dependent" in reason or "dynamic shape" in reason
    if data or (family is not None and family.name in _READ):
        yield SourcePatch(
            "the numbers are constants of the graph, which checks them",
            (*CONSTANTS, Rewrite("constants", item.where)),
            note="compiled anew for other values of small integer inputs; where the numbers change "
            "with another input, the graph raises RuntimeError",
        )
