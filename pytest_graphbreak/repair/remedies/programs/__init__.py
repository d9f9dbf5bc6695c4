"""Functions that are put at the head of patched files, each in its own file, as written there.

They are read as text and never imported. ``torch`` is imported in the file that they end up in.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

from pytest_graphbreak.repair.patch import Preamble

_BEGINS: Final = "# The program.\n"


@cache
def program(name: str) -> str:
    """Return the text of one of these files that follows its imports."""
    text = (files(__name__) / f"{name}.py").read_text("utf-8")
    return text.partition(_BEGINS)[2].strip()


def around(name: str, function: str = "") -> Preamble:
    """Return a program that wraps each call of what torch.compile compiles in a function.

    The function is ``_graphbreak_NAME`` unless another is given. ``AROUND`` must come before it.
    """
    call = f"torch.compile = _graphbreak_around(_graphbreak_{function or name})"
    return Preamble(f"{program(name)}\n\n\n{call}")


AROUND: Final = Preamble(program("around"))
ARGUMENTS: Final = Preamble(program("arguments"))
"""It names arguments in the same way as ``sizes`` does."""
OPERATOR: Final = Preamble(program("operator"))
GIVEN: Final = Preamble(program("given"))
"""Passes numbers and the objects that they change to functions called after the graph."""
