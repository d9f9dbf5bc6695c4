"""Compares a run of a patched program with the original, for ``search`` and ``prove``.

Both runs, each a ``Trial``, took place in processes of their own, which the ``Bench`` started.
``Original`` sends their results to one more process, where ``border`` compares them: that needs
torch, which the process of the command does not import. So what both sides use stands here: the
order (``CompareOrder``) and the answer (``Comparison``).

These words are used in all modules that compare:

==================  ============================================================================
border              what is seen from outside. Of a compiled call: its arguments and its results.
                    Of the program: what it prints, logs, writes and raises, and the objects that
                    it holds at its end
drawn input, call   an input that the program did not use itself, such as zeros or a batch of one
                    (``inputs``), and a compiled call that is made with it after the program's end
                    (``drawing``)
lines               what a run printed and logged, by stream: ``stdout``, ``stderr``, ``the log``,
                    ``warnings``
unsteady            of a program: one that gives other results when it is run again as it is
==================  ============================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pytest_graphbreak.layers.children.runner import ServerError
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench, TargetOrder, Trial

_INDUCTOR_FACTOR: Final = 10.0
"""How much wider tolerances are for code that inductor generates: it orders additions otherwise."""


class ValueDifference(Struct, frozen=True):
    """The first value that is another: ``what`` of ``where``, and both, as texts.

    ``call 2 of f: output, element [0]: 1.0 became 1.5``: ``where`` is ``call 2 of f``, ``what`` is
    ``output, element [0]``.
    """

    what: str
    before: str
    after: str
    where: str = ""

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        return f"{place}{self.what}: {self.before} became {self.after}"


class Comparison(Struct):
    """How a run differs from the original, and what of it was compared: the answer of ``border``.

    ====================  ===============  =================================================
    ``changed``           ``by_program``   what was compared
    ====================  ===============  =================================================
    empty                 false            each call, the program, and the drawn calls
    how the border of     false            the program; and the numbers of each call, which
    the calls changed                      are among its new results
    how it changed        true             the program alone
    ====================  ===============  =================================================
    """

    difference: ValueDifference | None = None
    calls: int = 0
    """The number of calls that were compared one by one."""
    drawn: list[str] = []
    """The drawn inputs for which results were compared."""
    refused: int = 0
    """The number of drawn inputs that the original does not take."""
    changed: str = ""
    """How the border of the compiled calls changed: a tensor for an int, one result more, a call
    more. A patch may do so."""
    by_program: bool = False
    """Whether the border of the program alone decides, since the calls have other results."""
    gone: list[str] = []
    """The names that only the original has, and that no call of it changes or uses."""
    left_out: list[str] = []
    """What was not compared, in words."""
    unsteady: str = ""
    """How the calls of the original differ in its second run, from which then nothing follows."""

    @property
    def words(self) -> str:
        """The difference in words, or empty."""
        return str(self.difference) if self.difference is not None else ""


class CompareOrder(TargetOrder, frozen=True, kw_only=True):
    """What a process is to compare: one or two runs of the original and, as the last, a patched.

    ``child`` hands it to the module that is its ``kind``. It runs no target.
    """

    kind: str = "border"
    results: list[str]
    """The file of each run (``border.Results``)."""
    lines: list[Mapping[str, Sequence[str]]]
    """What each run printed and logged, by stream."""
    errors: list[str | None]
    """What each run raised."""
    factor: float
    """How much wider tolerances are than those of ``torch.testing``."""
    numbers: bool
    """Whether numbers in lines are compared."""
    without: Sequence[str]
    """Names of objects that are not compared."""


class Original:
    """Runs a program as it is: once, and a second time if a patched run differs from the first.

    In the first run, drawn inputs are computed without the compiler, in the second with it. Each
    of the two is right, so a patched run has to agree with one of them. Lines and objects that
    differ between the two, such as times, are not compared.

    Without ``codegen`` inductor generates no code. With ``values_only`` drawn inputs have the sizes
    of the program's own. Both hold for all runs of the original and of patched programs.
    """

    def __init__(
        self, bench: Bench, target: Target, *, codegen: bool = True, values_only: bool = False
    ) -> None:
        self._options: dict[str, Any] = {"codegen": codegen, "values_only": values_only}
        self.first = bench.measure(target, eager=True, **self._options)
        self._bench = bench
        self._target = target
        self._second: Trial | None = None
        """The second run, once it was needed."""
        self._perturbed: Trial | None = None
        """The run whose calls give other results, once it was needed (``_shows_results``)."""

    def patched(self, target: Target, *, new_python: bool = False, **options: Any) -> Trial:
        """Run a patched program as the original was run; ``options`` are of ``MeasureOrder``."""
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
            compared = self._compare_with_both(trial) or compared
        is_same = compared.difference is None
        if is_same and compared.by_program and not self._shows_results(compared):
            words = f"others ({compared.changed}), and nothing that the program shows tells"
            difference = ValueDifference(
                "the results of its calls", "those of before", words, "the program"
            )
            return replace(compared, difference=difference)
        return compared

    def _compare_with_both(self, trial: Trial) -> Comparison | None:
        """Compare with the second run as well; None if that did not come to its end."""
        if self._second is None:
            self._second = self.patched(self._target)
        if not self._second.has_results:
            return None
        return self._compare([self.first, self._second], trial)

    def _shows_results(self, compared: Comparison) -> bool:
        """Return whether the border of the program tells when its calls give other results.

        A program that throws its results away prints and holds the same whatever they are, so
        nothing follows from that. To find out, the original runs once more and gets each float of a
        result changed (``perturbed``): then its border has to differ.
        """
        if self._perturbed is None:
            self._perturbed = self._bench.measure(self._target, perturbed=True, **self._options)
        trial = self._perturbed
        if not trial.has_results:
            return True  # it raised at other results
        return self._compare([self.first], trial, compared.gone).difference is not None

    def _compare(
        self, originals: Sequence[Trial], patched: Trial, without: Sequence[str] = ()
    ) -> Comparison:
        """Have ``border`` compare runs, but for the objects named in ``without``."""
        codegen = self._options["codegen"] and self.first.inductor
        # Only of an object, a backend of the program's own, the options have None as the backend
        # (``Capture.options``). It may print how many graphs it got, and a patch changes that.
        has_own_backend = patched.options.get("backend", "") is None
        runs = (*originals, patched)
        order = CompareOrder(
            results=[str(trial.results) for trial in runs],
            lines=[trial.lines for trial in runs],
            errors=[trial.error for trial in runs],
            factor=_INDUCTOR_FACTOR if codegen else 1.0,
            without=without,
            numbers=not has_own_backend,
        )
        answer, _ = self._bench.run(self._target, order)
        if "compared" not in answer:
            raise ServerError(f"the results cannot be compared: {answer.get('error')}")
        return msgspec.convert(answer["compared"], Comparison)
