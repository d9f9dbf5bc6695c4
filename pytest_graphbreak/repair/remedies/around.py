"""Source that puts a function around each call of what ``torch.compile`` compiles."""

from __future__ import annotations

from typing import Final

from pytest_graphbreak.repair.patch import Preamble
from pytest_graphbreak.repair.remedies.programs import program

AROUND: Final = Preamble(program("around"))
"""``torch.compile = _graphbreak_around(make)``; follow it with such a line."""

ARGUMENTS: Final = Preamble(program("arguments"))
"""The names are those of ``sizes``."""
