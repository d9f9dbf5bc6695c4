"""A program as it is, its runs, and how a patched run of it differs from all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pytest_graphbreak.layers.children.runner import ServerError
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench, TargetOrder, Trial

_INDUCTOR: Final = 10.0
"""How much wider tolerances are for code that inductor generates: it orders additions otherwise."""


class ValueDifference(Struct, frozen=True):
    """The first value that is another: ``what`` of ``where``, and both, as texts."""

    what: str
    before: str
    after: str
    where: str = ""

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        return f"{place}{self.what}: {self.before} became {self.after}"


class Comparison(Struct):
    """How a run differs from the original, and what of it was compared."""

    difference: ValueDifference | None = None
    calls: int = 0
    """The number of calls that were compared one by one."""
    drawn: list[str] = []
    """The drawn inputs for which results were compared."""
    refused: int = 0
    """The number of drawn inputs that the original does not take."""
    changed: str = ""
    """How the border of the compiled calls changed: arguments, results, how many there are."""
    by_program: bool = False
    """Whether the border of the program alone decides, since the calls have other results."""
    gone: list[str] = []
    """The names that only the original has, and that no call of it changes or uses."""
    left_out: list[str] = []
    """What was not compared, in words."""
    unsteady: str = ""
    """How the original differs from itself: then nothing follows from a difference."""

    @property
    def words(self) -> str:
        """The difference in words, or empty."""
        return str(self.difference) if self.difference is not None else ""


class CompareOrder(TargetOrder, frozen=True, kw_only=True):
    """What ``border`` compares: runs of the original and, as the last, a patched one."""

    kind: str = "border"
    results: list[str]
    """The file of each run (``border.Results``)."""
    lines: list[Mapping[str, Sequence[str]]]
    """Those of each run, by stream."""
    errors: list[str | None]
    """What each run raised."""
    factor: float
    """How much wider tolerances are."""
    numbers: bool
    """Whether numbers in lines count."""
    without: Sequence[str]
    """Names that are not compared."""


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
        """The second run, once it was needed."""
        self._perturbed: Trial | None = None
        """The run whose calls give other results, once it was needed (``_shows_results``)."""

    def patched(self, target: Target, *, new_python: bool = False, **options: Any) -> Trial:
        """Run a patched program as the original was run."""
        options |= self._options
        return self._bench.measure(target, original=self.first, new_python=new_python, **options)

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
        is_same = compared.difference is None
        if is_same and compared.by_program and not self._shows_results(compared):
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
            return True  # it raised at other results
        return self._compare([self.first], trial, compared.gone).difference is not None

    def _compare(
        self, originals: Sequence[Trial], patched: Trial, without: Sequence[str] = ()
    ) -> Comparison:
        """Return how the results of a run differ from those of the original's (``border``)."""
        codegen = self._options["codegen"] and self.first.inductor
        runs = (*originals, patched)
        order = CompareOrder(
            results=[str(trial.results) for trial in runs],
            lines=[trial.lines for trial in runs],
            errors=[trial.error for trial in runs],
            factor=_INDUCTOR if codegen else 1.0,
            without=without,
            # A backend of the program's own (``Capture.has_own_backend``) may count graphs.
            numbers=patched.options.get("backend", "") is not None,
        )
        answer, _ = self._bench.run(self._target, order)
        if "compared" not in answer:
            raise ServerError(f"the results cannot be compared: {answer.get('error')}")
        return msgspec.convert(answer["compared"], Comparison)
