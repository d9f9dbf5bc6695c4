"""Finds, in a row, the first that is bad: halves what is left, skips as git bisect does. Pure."""

from __future__ import annotations

from collections.abc import Sequence


class Halving:
    """Items from old to new: the first is good, the last is bad, and those between are asked."""

    def __init__(self, items: Sequence[object]) -> None:
        self.good = 0
        self.bad = len(items) - 1
        self._skipped: set[int] = set()

    @property
    def _left(self) -> list[int]:
        return [number for number in range(self.good + 1, self.bad) if number not in self._skipped]

    @property
    def next(self) -> int | None:
        """The one that is nearest to the middle of what is left; None where nothing is."""
        middle = (self.good + self.bad) / 2
        return min(self._left, key=lambda number: abs(number - middle), default=None)

    @property
    def steps(self) -> int:
        """About how many steps there are after the next."""
        return max(0, len(self._left).bit_length() - 1)

    @property
    def answers(self) -> list[int]:
        """When nothing is left to ask: the bad one, and those before it that were skipped."""
        return list(range(self.good + 1, self.bad + 1))

    def say(self, word: str, number: int) -> None:
        """``good``, ``bad`` or ``skip``."""
        if word == "good":
            self.good = number
        elif word == "bad":
            self.bad = number
        else:
            self._skipped.add(number)
