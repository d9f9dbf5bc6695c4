"""A program as it is: its runs, and how a patched run of it differs from all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from pytest_graphbreak.repair import printed
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench, Trial

DRAWN = "with other inputs"
"""How a difference begins that the program's own calls do not show (``compare.DRAWN``)."""


class Comparison(Struct, frozen=True):
    """How a run differs from the original; ``words`` is empty if it does not.

    ``inputs`` is the number of those for which results were compared, ``kinds`` are those of
    them that were drawn, ``raised`` is the number of inputs for which both raise. ``unsteady`` says
    how the original differs from itself: then nothing follows from a difference.
    """

    words: str = ""
    inputs: int = 0
    kinds: Sequence[str] = ()
    raised: int = 0
    refused: Sequence[str] = ()
    """Inputs that require gradients, as those of the program do not, for which it raises."""
    unsteady: str = ""


class Original:
    """Runs a program as it is: once, and a second time if a patched run differs from that.

    Inputs that are drawn are computed without the compiler in the first run, with it in the second:
    what a patched run gives has to be what one of them gave. Lines and objects that differ between
    the two are not compared, such as times.
    """

    def __init__(
        self, bench: Bench, target: Target, *, codegen: bool = True, values_only: bool = False
    ) -> None:
        self._options: dict[str, Any] = {"codegen": codegen, "values_only": values_only}
        self.first = bench.measure(target, eager=True, **self._options)
        self._bench = bench
        self._target = target
        self._again: Trial | None = None

    def patched(self, target: Target, *, alone: bool = False, **options: Any) -> Trial:
        """Run a patched program as the original was run."""
        options |= self._options
        return self._bench.measure(target, original=self.first, alone=alone, **options)

    def comparison(self, trial: Trial, *, dropped: bool = False) -> Comparison:
        """Compare a patched run; with ``dropped`` it may write and hold less than the original."""
        if trial.error is not None:
            return Comparison(f"it fails{trial.at}: {trial.error[:300]}")
        compared = self._compare([self.first], trial, dropped)
        if not compared.words:
            return compared
        if self._again is None:
            self._again = self.patched(self._target)
        if self._again.error is not None:
            return compared
        compared = self._compare([self.first, self._again], trial, dropped)
        if not compared.words or compared.words.startswith(DRAWN):
            return compared
        words = self._compare([self.first], self._again, dropped=True).words
        steady = not words or words.startswith(DRAWN)
        return compared if steady else Comparison(compared.words, unsteady=words)

    def _compare(self, originals: list[Trial], trial: Trial, dropped: bool) -> Comparison:
        answer = self._bench.compared(self._target, originals, trial, objects=not dropped)
        words = answer.pop("words") or self._line_difference(originals, trial, dropped)
        return Comparison(words or "", **answer)

    def _line_difference(self, originals: list[Trial], trial: Trial, dropped: bool) -> str | None:
        """Return which line differs; a backend of the program's own may count the graphs."""
        numbers = trial.answer.get("options", {}).get("backend", "") is not None
        unsteady = printed.unsteady(originals[0].lines, originals[-1].lines)
        before, after = (printed.without(run.lines, unsteady) for run in (originals[0], trial))
        return printed.difference(before, after, dropped=dropped, numbers=numbers)
