"""Functions that patched files have at their head, each in a file of its own, as it is written.

They are read as text and never imported. ``torch`` is there where they end up.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

from pytest_graphbreak.repair.patch import Preamble

_BEGINS: Final = "# The program.\n"


@cache
def program(name: str) -> str:
    """Return the text of one of these files, from the line behind its imports on."""
    text = (files(__name__) / f"{name}.py").read_text("utf-8")
    return text.partition(_BEGINS)[2].strip()


def around(name: str, function: str = "") -> Preamble:
    """Return a program whose function is put around each call of what torch.compile compiles.

    The function is ``_graphbreak_NAME`` where no other is given. ``AROUND`` has to go before.
    """
    call = f"torch.compile = _graphbreak_around(_graphbreak_{function or name})"
    return Preamble(f"{program(name)}\n\n\n{call}")


AROUND: Final = Preamble(program("around"))
ARGUMENTS: Final = Preamble(program("arguments"))
"""The names that it gives are those of ``sizes``."""
OPERATOR: Final = Preamble(program("operator"))
