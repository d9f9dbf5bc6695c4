"""Patches that remedies propose: changes of source files, each of a few lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from pytest_graphbreak.model.record import Frame

Change = Callable[[str, Frame], str | None]
"""Returns the source of a file with a place rewritten, or None if it does not apply there.

Raises ``UnfitError`` if the form is known but cannot be rewritten. It is compared by identity: a
function of a module, or one that is cached.
"""
COMPILES: Final = Frame("", "<module>", 0, "")
"""The file that calls ``torch.compile``, for what is of the whole program."""


class UnfitError(ValueError):
    """Raised with the reason why a place cannot be rewritten; without text if it does not apply."""


class SourcePatch(Struct, frozen=True):
    """A remedy for a problem: a change at a source line.

    ``note`` is what it costs, or what happens at another time with it.
    """

    title: str
    change: Change
    where: Frame
    note: str = ""
