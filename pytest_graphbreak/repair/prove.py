"""Proves that a patched program does what the original does, in fewer graphs.

Whoever wrote the patch: ``graphbreak fix`` proves the files that it writes so, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec import Struct

from pytest_graphbreak.model.record import Record
from pytest_graphbreak.repair.gain import better, cleaner, eager, no_gain
from pytest_graphbreak.repair.original import Comparison, Original
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench, Trial
from pytest_graphbreak.text.output import plural

BETTER: Final = "better and equal"
EQUAL: Final = "equal, but not better"
DIFFERS: Final = "differs"
UNJUDGED: Final = "cannot be judged"


class Proof(Struct, frozen=True):
    """The runs of a program before and after a patch, and how they differ."""

    before: Trial
    after: Trial
    comparison: Comparison

    @property
    def verdict(self) -> str:
        return self._judgement[0]

    @property
    def why(self) -> str:
        """What differs, or why the patch is no gain, or why it cannot be judged; else empty."""
        return self._judgement[1]

    @property
    def _judgement(self) -> tuple[str, str]:
        before, after = self.before.record, self.after.record
        if self.before.error is not None:
            return UNJUDGED, f"the original does not run: {self.before.error}"
        if unsteady := self.comparison.unsteady:
            return UNJUDGED, f"the original differs from run to run: {unsteady}"
        if not before.active:
            return UNJUDGED, "the original compiles nothing"
        if self.comparison.words:
            return DIFFERS, self.comparison.words
        gains = better(before, after, may_leave=True) or cleaner(before, after, may_leave=True)
        return (BETTER, "") if gains else (EQUAL, no_gain(before, after))

    def equal(self) -> str:
        """Return what was compared, in words."""
        comparison = self.comparison
        drawn = len(comparison.kinds)
        calls = plural(comparison.inputs - drawn, "call")
        parts = [f"{calls} of the program"]
        if drawn:
            parts.append(f"{plural(drawn, 'call')} with drawn inputs")
        if comparison.raised:
            parts.append(f"{comparison.raised} more raised in both")
        if endless := len(self.before.endless):
            parts.append(f"{endless} did not end without the compiler")
        if comparison.refused:
            parts.append("but gradients of the inputs are refused")
        trained = " and trained weights" if self.before.trained else ""
        return f"outputs, gradients{trained}, changes in place and lines: {', '.join(parts)}"

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """Yield the counts of both, each with its name."""
        before, after = self.before.record, self.after.record
        for name in ("graphs", "recompiles", "executions"):
            old, new = getattr(before, name), getattr(after, name)
            for layer in dict.fromkeys((*before.layers, *after.layers)):
                if layer in old or layer in new or (name == "recompiles" and layer == "dynamo"):
                    yield f"{layer} {name}", str(old.get(layer, 0)), str(new.get(layer, 0))
        yield "graph breaks", str(len(before.breaks)), str(len(after.breaks))
        if eager(before) or eager(after):
            yield "eager functions", str(eager(before)), str(eager(after))

    def to_dict(self) -> dict[str, Any]:
        """Return the proof as plain data."""
        comparison = self.comparison
        return {
            "verdict": self.verdict,
            "why": self.why or None,
            "before": _counts(self.before),
            "after": _counts(self.after),
            "compared": comparison.inputs,
            "drawn": list(comparison.kinds),
            "raised": comparison.raised,
            "refused": list(comparison.refused),
        }


def prove(
    bench: Bench,
    original: Target,
    patched: Target,
    *,
    replaced: tuple[str, str] | None = None,
    step: Callable[[float, float, str], None] = lambda *_: None,
) -> Proof:
    """Run both, on the program's own inputs and on drawn ones, and compare them.

    If inductor compiles them, drawn inputs of other sizes are compared without its code generation,
    which takes most of the time; all else as it is. ``replaced`` is a module that the program
    imports, and its patched file: then both targets are that program.
    """
    step(0, 4, f"{original.shown} without code generation")
    first = Original(bench, original, codegen=False)
    proof = proof_of(first, patched, replaced=replaced)
    if proof.verdict not in (BETTER, EQUAL) or not first.first.inductor:
        return proof
    step(2, 4, f"{original.shown} as it is")
    complete = proof_of(Original(bench, original, values_only=True), patched, replaced=replaced)
    return complete if complete.comparison.words else _union(complete, proof)


def proof_of(
    original: Original, patched: Target, *, dropped: bool = False, **options: Any
) -> Proof:
    """Prove a patched program against an original that has run (``Original.patched``)."""
    before = original.first
    if before.error is not None or not before.record.active:
        return Proof(before, before, Comparison())
    after = original.patched(patched, **options)
    return Proof(before, after, original.comparison(after, dropped=dropped))


def _union(complete: Proof, sizes: Proof) -> Proof:
    """Return a proof with the inputs that the other compared, too."""
    at_values, at_sizes = complete.comparison, sizes.comparison
    kinds = [*at_values.kinds, *(kind for kind in at_sizes.kinds if kind not in at_values.kinds)]
    calls = at_values.inputs - len(at_values.kinds)
    raised = max(at_values.raised, at_sizes.raised)
    joined = Comparison("", calls + len(kinds), kinds, raised, at_sizes.refused)
    return Proof(complete.before, complete.after, joined)


def _counts(trial: Trial) -> dict[str, Any]:
    record: Record = trial.record
    return {
        "error": trial.error,
        "graphs": dict(record.graphs),
        "breaks": len(record.breaks),
        "recompiles": dict(record.recompiles),
        "executions": dict(record.executions),
        "eager": eager(record),
    }
