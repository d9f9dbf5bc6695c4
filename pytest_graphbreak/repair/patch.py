"""Patches that remedies propose: changes of the program, as Python source.

A ``SourcePatch`` is a list of edits. A ``Preamble`` is statements that run before the program does;
a ``Rewrite`` changes one function, in the copy of the user's file, or in memory if the function
belongs to another module.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from pytest_graphbreak.model.record import Frame

Change = Callable[[str, Frame], str | None]
"""Returns the source of a file with a place rewritten, or None if it does not apply there.

Raises ``UnfitError`` if the form is known but cannot be rewritten. It is compared by identity: a
function of a module, or one that is cached.
"""


class UnfitError(ValueError):
    """Raised with the reason why a place cannot be rewritten."""


class Preamble(Struct, frozen=True):
    """Statements for the head of the patched file, after ``import torch``; each stands once."""

    source: str


class Rewrite(Struct, frozen=True):
    """A change at a source line.

    ``helper`` is whether the new lines call a function of a ``Preamble``: then only the user's own
    file can be rewritten. ``decorator`` is the full name of one if that is all that is added to the
    function at ``where``: a function of another module is then replaced as a whole.
    """

    change: Change
    where: Frame
    helper: bool = False
    decorator: str = ""


Edit = Preamble | Rewrite


class SourcePatch(Struct, frozen=True):
    """A remedy for a problem. Its edits are its identity: no patch is tried twice.

    ``drops`` says which side effect is lost, ``moves`` what still happens, but at another time,
    ``note`` what the patch costs, and ``unfit`` why it is not tried at all.
    """

    title: str
    edits: tuple[Edit, ...]
    drops: str = ""
    moves: str = ""
    note: str = ""
    unfit: str = ""
    leaves: bool = False
    """Whether it takes code out of the compiler on purpose (``disable``)."""


def switch(name: str, value: str = "True") -> Preamble:
    """Return the statement that sets a config of torch."""
    return Preamble(f"torch._dynamo.config.{name} = {value}")
