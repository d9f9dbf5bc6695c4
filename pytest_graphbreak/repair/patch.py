"""Patches that remedies propose: changes of the program, as Python source.

A ``SourcePatch`` is a list of edits. ``Preamble`` edits are statements that run before the program
does; ``Rewrite`` edits change one source line of one function, in the copy of the user's file, or
in memory if the function belongs to another module.
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
    """Statements for the head of the patched file, after ``torch`` and ``importlib``."""

    source: str


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A change at a source line. ``kind`` names a rewriter of ``rewrite``."""

    kind: str
    where: Frame


Edit = Preamble | Rewrite


@dataclass(frozen=True, slots=True)
class SourcePatch:
    """A remedy for a break. ``drops`` says which side effect is lost, if one is.

    ``moves`` says what still happens, but at another time. ``key`` is its identity: a patch that
    was tried is not tried again for another break.
    """

    title: str
    edits: tuple[Edit, ...]
    drops: str = ""
    moves: str = ""
    leaves: bool = False
    """Whether it takes code out of the compiler on purpose (``disable``)."""
    note: str = ""
    """The cost of the patch, for the report."""
    unfit: str = ""
    """Why it is not tried, for the report."""
    changes_errors: bool = False
    """Whether the program's own exceptions may become others, as ``drops`` says."""

    @property
    def key(self) -> tuple[Edit, ...]:
        return self.edits


def switch(name: str, value: str = "True", *, home: str = "torch._dynamo.config") -> Preamble:
    """Return the statement that sets a config of torch."""
    return Preamble(f"{home}.{name} = {value}")


UNCOMPILED: Final = SourcePatch(
    "the program without the compiler",
    (Preamble('torch.compiler.set_stance("force_eager")'),),
)
"""No remedy: it shows what a program does where torch compiles it to something else."""
