"""Parses the source of others without a warning on their behalf."""

from __future__ import annotations

import ast
import re
from typing import Final

_ESCAPE: Final = re.compile(r"\\(?:([\\'\"\r\n]|N\{)|)")
"""A backslash, and what follows it where that decides the end of a string, or of its line."""


def parsed(text: str) -> ast.Module:
    """Return the tree of a source text; strings have an underscore for the backslash of an escape.

    Python warns of ``"\\d"`` whenever it parses it, and filters of warnings belong to the program.
    Lines and columns stay. Raises what ``ast.parse`` raises.
    """
    return ast.parse(_ESCAPE.sub(lambda found: found[0] if found[1] else "_", text))
