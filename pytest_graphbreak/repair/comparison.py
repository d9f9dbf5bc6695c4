"""What a comparison of a patched program with its original came to."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct


class ValueDifference(Struct, frozen=True):
    """The first value that is another: ``what`` of ``where``, and both, as texts."""

    what: str
    before: str
    after: str
    where: str = ""
    drawn: bool = False
    """Whether it shows with drawn inputs only."""

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        return f"{place}{self.what}: {self.before} became {self.after}"


class Comparison(Struct, frozen=True):
    """How a run differs from the original, and what of it was compared."""

    difference: ValueDifference | None = None
    calls: int = 0
    """The number of calls that were compared one by one."""
    drawn: Sequence[str] = ()
    """The drawn inputs for which results were compared."""
    refused: int = 0
    """The number of drawn inputs that the original does not take."""
    changed: str = ""
    """How the border of the compiled calls changed: arguments, results, how many there are."""
    alone: bool = False
    """Whether the border of the program alone decides, since the calls have other results."""
    gone: Sequence[str] = ()
    """The names that only the original has, and that no call of it changes or uses."""
    left_out: Sequence[str] = ()
    """What was not compared, in words."""
    unsteady: str = ""
    """How the original differs from itself: then nothing follows from a difference."""

    @property
    def words(self) -> str:
        """The difference in words, or empty."""
        return str(self.difference) if self.difference is not None else ""
