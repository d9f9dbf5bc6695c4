"""A program as it is: its runs, and how a patched run of it differs from all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from pytest_graphbreak.repair.comparison import Comparison, ValueDifference
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench, Trial

_INDUCTOR: Final = 10.0
"""How much wider tolerances are for code that inductor generates: it orders additions otherwise."""


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
        self._perturbed: Trial | None = None

    def patched(self, target: Target, *, alone: bool = False, **options: Any) -> Trial:
        """Run a patched program as the original was run."""
        options |= self._options
        return self._bench.measure(target, original=self.first, alone=alone, **options)

    def comparison(self, trial: Trial) -> Comparison:
        """Compare a patched run."""
        if not trial.has_results:
            words = f"{trial.error}{trial.at}"
            return Comparison(
                ValueDifference("what it raises", "nothing", words[:300], "the program")
            )
        compared = self._compare([self.first], trial)
        if compared.difference is not None:
            if self._again is None:
                self._again = self.patched(self._target)
            if self._again.has_results:
                compared = self._compare([self.first, self._again], trial)
        if compared.difference is None and compared.alone and not self._shows_results(compared):
            words = f"others ({compared.changed}), and nothing that the program shows tells"
            difference = ValueDifference(
                "the results of its calls", "those of before", words, "the program"
            )
            return replace(compared, difference=difference)
        return compared

    def _shows_results(self, compared: Comparison) -> bool:
        """Return whether the border of the program tells when its calls give other results."""
        if self._perturbed is None:
            self._perturbed = self._bench.measure(self._target, perturbed=True, **self._options)
        trial = self._perturbed
        if not trial.has_results:
            return True
        return self._compare([self.first], trial, compared.gone).difference is not None

    def _compare(
        self, originals: list[Trial], trial: Trial, without: Sequence[str] = ()
    ) -> Comparison:
        codegen = self._options["codegen"] and self.first.inductor
        factor = _INDUCTOR if codegen else 1.0
        return self._bench.compared(self._target, originals, trial, factor, without)
