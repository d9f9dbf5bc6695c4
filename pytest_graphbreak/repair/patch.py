"""What a remedy proposes: a change of the program, as Python source.

A ``SourcePatch`` is a list of edits. ``Preamble`` edits are statements that run before the
program does; ``Rewrite`` edits change one source line of one function, in the
copy of the user's file, or in memory where the function is another module's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pytest_graphbreak.model.record import Frame

DECORATORS: Final = {
    "leave_compiler": "torch.compiler.disable",
    "nonstrict": "torch._dynamo.nonstrict_trace",
    "op": "_graphbreak_op",
    "scalar_op": "_graphbreak_scalar_op",
}
"""Rewrites that put a decorator on a function, whichever file it is in."""


@dataclass(frozen=True, slots=True)
class Preamble:
    """Statements for the head of the patched file. ``torch`` and ``importlib`` are there."""

    source: str


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A change at a source line. ``kind`` names a rewriter of ``rewrite``."""

    kind: str
    where: Frame


Edit = Preamble | Rewrite


@dataclass(frozen=True, slots=True)
class SourcePatch:
    """One remedy for one break. ``drops`` says which side effect is lost, if one is.

    ``moves`` says what still happens, at another time. ``key`` is the identity:
    a patch that was tried is not tried again for another break.
    """

    title: str
    edits: tuple[Edit, ...]
    drops: str = ""
    moves: str = ""
    leaves: bool = False
    """Whether it takes code out of the compiler on purpose (``disable``)."""
    note: str = ""
    """What it costs, for the report."""

    @property
    def key(self) -> tuple[Edit, ...]:
        return self.edits


def switch(name: str, value: str = "True", *, home: str = "torch._dynamo.config") -> Preamble:
    """The statement that sets a config of torch, where this torch has it."""
    return Preamble(f"{home}.{name} = {value}")
