"""Functions that patched files have at their head, each in a file of its own, as it is written.

They are read as text and never imported. ``torch`` is there where they end up.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

_BEGINS = "# The program.\n"


@cache
def program(name: str) -> str:
    """The text of one of these files, from the line behind its imports on."""
    text = (files(__name__) / f"{name}.py").read_text("utf-8")
    return text.partition(_BEGINS)[2].strip()
