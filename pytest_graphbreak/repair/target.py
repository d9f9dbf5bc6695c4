"""What is to be run: a script with its arguments, or one test by its node id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path


class TargetError(ValueError):
    """The user named something that can not be run."""


@dataclass(frozen=True, slots=True)
class Target:
    """A file and how it is run. ``test`` is what follows ``::``, empty for a script."""

    path: Path
    test: str = ""
    arguments: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """As a user would type it."""
        return f"{self.path}::{self.test}" if self.test else str(self.path)

    def beside(self, suffix: str) -> Target:
        """The same run of another file beside it: ``model.py`` -> ``model_fixed.py``."""
        return replace(self, path=self.path.with_name(f"{self.path.stem}{suffix}.py"))

    def at(self, path: Path) -> Target:
        return replace(self, path=path)


def parse(text: str, arguments: Sequence[str] = ()) -> Target:
    """A target from what was typed. Raises ``TargetError``, which says what is wrong."""
    name, _, test = text.partition("::")
    path = Path(name)
    if not path.is_file():
        raise TargetError(f"{name}: no such file; give a script, or a test as FILE::TEST")
    if path.suffix != ".py":
        raise TargetError(f"{name}: not a Python file; give a script, or a test as FILE::TEST")
    if test and arguments:
        raise TargetError(f"{text}: a test takes no arguments")
    try:
        compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise TargetError(f"{name}: not valid Python: {error}") from None
    return Target(path, test, tuple(arguments))
