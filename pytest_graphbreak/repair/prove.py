"""Proves that a patched program does what the original does, in fewer graphs.

``graphbreak prove`` proves a patch that somebody wrote (``prove``), ``graphbreak fix`` the files
that it writes (``proof_of``). Both programs run, each as a ``Trial`` (``trial``); ``Original``
compares their results, with drawn inputs too, that the program did not use itself; and ``gain``
says whether the patched one is better. A ``Proof`` puts this together, for a reader and as data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pytest_graphbreak.model.record import Record
from pytest_graphbreak.repair.comparison import Comparison, Original
from pytest_graphbreak.repair.gain import eager_count, fixable, no_gain
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench, Trial
from pytest_graphbreak.text.errors import UserError
from pytest_graphbreak.text.numbers import plural

# The verdicts of a proof.
PROVED: Final = "proved"
DIFFERS: Final = "differs"
NOT_BETTER: Final = "not better"
"""It does the same, but ``gain.no_gain`` has a reason against it."""
_NEVER: Final = ("files of native code and other processes", "devices other than {device}")
"""What is not compared in any program."""


class ProofError(UserError):
    """Raised for an original that nothing can be compared with: it compiles nothing, or fails."""


class Proof(Struct, frozen=True):
    """The runs of a program before and after a patch, and how they differ."""

    before: Trial
    after: Trial
    comparison: Comparison

    @property
    def verdict(self) -> str:
        if self.comparison.difference is not None:
            return DIFFERS
        return NOT_BETTER if self._rule() else PROVED

    @property
    def why(self) -> str:
        """The first difference, or the rule by which the patch is not better; else empty."""
        return self.comparison.words or self._rule()

    def _rule(self) -> str:
        """Return why the patch is not better, or "".

        A patch that makes far fewer operations may have moved code out of the compiler, and is
        refused for that. Not where no code is left in Python, neither by a break nor by leaving the
        compiler, and the calls take and give what they did: then the patch computes with fewer.
        """
        after = self.after.record
        all_compiled = not (self.comparison.changed or fixable(after) or eager_count(after))
        return no_gain(self.before, self.after, all_compiled=all_compiled)

    def compared(self) -> str:
        """Return what was compared and what was not, in words."""
        comparison = self.comparison
        parts = ["1 program"]
        if comparison.drawn or not comparison.changed:
            parts.append(plural(len(comparison.drawn), "drawn call"))
        return f"{', '.join(parts)}; not compared: {', '.join(self.not_compared())}"

    def not_compared(self) -> list[str]:
        """Return what was not compared, in words."""
        comparison = self.comparison
        words = [*comparison.left_out, *(f"{name}, which is gone" for name in comparison.gone)]
        if comparison.changed:
            what = "the results of calls" if comparison.by_program else "calls one by one"
            words.append(f"{what} ({comparison.changed}; the program decides)")
        if endless := len(self.before.endless):
            ends = "does" if endless == 1 else "do"
            words.append(f"{plural(endless, 'drawn call')} that {ends} not end")
        raised = self.after.rounds.raised
        if raised and not comparison.difference:
            words.append(f"a longer run ({raised[:80]})")
        device = self.before.device or "cpu"
        return [*words, *(text.format(device=device.lower()) for text in _NEVER)]

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """Yield the name of each count, and what it is before and after: a table for the reader."""
        before, after = self.before.record, self.after.record
        for name in ("graphs", "recompiles", "executions"):
            old, new = getattr(before, name), getattr(after, name)
            for layer in dict.fromkeys((*before.layers, *after.layers)):
                if layer in old or layer in new or (name == "recompiles" and layer == "dynamo"):
                    yield f"{layer} {name}", str(old.get(layer, 0)), str(new.get(layer, 0))
        yield "graph breaks", str(len(before.breaks)), str(len(after.breaks))
        if eager_count(before) or eager_count(after):
            yield "eager functions", str(eager_count(before)), str(eager_count(after))

    def to_dict(self) -> dict[str, Any]:
        """Return the proof as plain data."""
        comparison = self.comparison
        return {
            "verdict": self.verdict,
            "why": self.why or None,
            "difference": msgspec.to_builtins(comparison.difference),
            "before": _counts(self.before),
            "after": _counts(self.after),
            "calls": comparison.calls,
            "drawn": list(comparison.drawn),
            "refused": comparison.refused,
            "not_compared": self.not_compared(),
        }


def prove(
    bench: Bench,
    original: Target,
    patched: Target,
    *,
    replaced: Mapping[str, str] | None = None,
    step: Callable[[float, float, str], None] = lambda *_: None,
) -> Proof:
    """Run both, on the program's own inputs and on drawn ones, and compare them.

    Both run without the code that inductor generates, which takes most of the time. If they agree,
    and inductor compiles them, they run again with it, and with drawn inputs of the program's own
    sizes only. ``replaced`` is a module that the program imports, and its patched file: then both
    targets are that program. ``step`` shows the progress. Raises ``ProofError``.
    """
    options: dict[str, Any] = {"replaced": dict(replaced or {})}
    step(0, 4, f"{original.name} without code generation")
    first = Original(bench, original, codegen=False)
    proof = proof_of(first, patched, **options)
    if proof.verdict == DIFFERS or not first.first.inductor:
        return proof  # without inductor that was the program as it is
    step(2, 4, f"{original.name} as it is")
    complete = proof_of(Original(bench, original, values_only=True), patched, **options)
    if complete.verdict == DIFFERS:
        return complete
    drawn = [*dict.fromkeys((*complete.comparison.drawn, *proof.comparison.drawn))]
    comparison = replace(proof.comparison, drawn=drawn)
    return replace(complete, comparison=comparison)


def proof_of(original: Original, patched: Target, **options: Any) -> Proof:
    """Run a patched program, and prove it against an original that has run.

    ``options`` are those of ``Original.patched``. Raises ``ProofError``.
    """
    before = original.first
    if not before.record.active:
        if before.error is not None:
            raise ProofError(f"the original does not run: {before.error}")
        raise ProofError("the original compiles nothing")
    if not before.has_results:
        raise ProofError(f"the original does not run to its end: {before.error}")
    after = original.patched(patched, **options)
    comparison = original.comparison(after)
    if comparison.unsteady:
        raise ProofError(f"the original differs from run to run: {comparison.unsteady}")
    return Proof(before, after, comparison)


def _counts(trial: Trial) -> dict[str, Any]:
    """Return the counts of one run as plain data."""
    record: Record = trial.record
    return {
        "error": trial.error,
        "graphs": dict(record.graphs),
        "breaks": len(record.breaks),
        "recompiles": dict(record.recompiles),
        "executions": dict(record.executions),
        "eager": eager_count(record),
    }
