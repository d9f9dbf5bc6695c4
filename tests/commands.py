"""Commands as they are typed in a directory, and what they answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_graphbreak.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


@dataclass
class Said:
    """What a command answered."""

    code: int
    out: str
    err: str


class Commands:
    """Types commands of ``graphbreak`` in this process; ``path`` is where they are typed."""

    def __init__(self, path: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.path = path
        self._capture = capture

    def run(self, *args: str, code: int | None = None) -> Said:
        """Return what a command answered, which has to end with ``code`` if that is stated."""
        self._capture.readouterr()
        ended_with = main(args)
        said = self._capture.readouterr()
        assert code in (None, ended_with), said
        return Said(ended_with, said.out, said.err)
