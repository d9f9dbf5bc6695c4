"""What moved, in numbers: the first line of a failure, and the table below it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from pytest_graphbreak.judging.verdict import Verdict
from pytest_graphbreak.model.differences import Difference
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.text.numbers import noun
from pytest_graphbreak.text.output import TextLine


def headline(verdict: Verdict, record: Record) -> TextLine:
    """One line: the count that moved most, and whose number it passed."""
    return first_line(_moved_most(verdict, record))


def first_line(text: str) -> TextLine:
    """The first line of a failure."""
    return TextLine(text, "headline", head="graph budget: ")


def _moved_most(verdict: Verdict, record: Record) -> str:
    if verdict.name == "new":
        return f"no baseline for this test ({totals(record)})"
    if verdict.emptied:
        return _nothing_left(verdict, record)
    steps = verdict.over or verdict.lost or verdict.fewer
    if not steps:
        return f"{verdict.name}, {totals(record)}"
    step = max(steps, key=lambda item: (abs(item.growth), item.layer == record.headline))
    sign = f"{step.growth:+d}"
    return f"{_amount(step)}, {_who(step)} {step.before} ({sign})"


def _nothing_left(verdict: Verdict, record: Record) -> str:
    """A layer that makes no graph any more: worse than any that makes more."""
    step = next(step for step in verdict.lost if step.kind == "graph" and not step.after)
    made = f"{totals(record)} still" if any(record.graphs.values()) else "nothing was compiled"
    return f"no {step.layer} graph any more, {_who(step)} {step.before} ({made})"


def _who(step: Difference) -> str:
    if step.growth < 0 and step.by == "baseline":
        return "the baseline has"
    return "--max-graphs allows" if step.by == "option" else f"the {step.by} allows"


def _amount(step: Difference) -> str:
    count, layer = step.after, step.layer
    if step.kind == "graph":
        return f"{count} {layer} {noun(count, 'graph')}"
    if step.kind == "recompile":
        return f"{count} {layer} {noun(count, 'recompile')}"
    if step.kind == "ops":
        return f"{count} captured {noun(count, 'operation')} left in {layer} graphs"
    if step.kind == "break":
        return f"{count} {noun(count, 'breaking place')}"
    return f"{count} {noun(count, 'place')} left the compiler"


def totals(record: Record) -> str:
    counts = {layer: record.graphs.get(layer, 0) for layer in record.layers}
    made = {layer: count for layer, count in counts.items() if count}
    if counts and not made:
        made = {record.headline: 0}
    parts = [f"{count} {layer} {noun(count, 'graph')}" for layer, count in made.items()]
    if record.breaks:
        parts.append(f"{len(record.breaks)} {noun(len(record.breaks), 'breaking place')}")
    return ", ".join(parts) or "nothing was compiled"


NAMES: Final = {"graph": "graphs", "recompile": "recompiles", "break": "breaks"}
"""What a total is called, where that is not its kind."""


def counts(verdict: Verdict, record: Record) -> Iterator[TextLine]:
    """The table of what moved, what went to none first: ``  xla      1 -> 4   +3``."""
    unique = dict.fromkeys((*verdict.over, *verdict.lost, *verdict.fewer))
    steps = [step for step in unique if step.kind != "ops"]
    for step in sorted(steps, key=lambda item: item.kind != "graph" or item.after > 0):
        name = step.layer if step.kind == "graph" else NAMES.get(step.kind, step.kind)
        if step.kind == "recompile":
            name = f"{step.layer} recompiles"
        note = "" if step.by == "baseline" else "   (marker)"
        words = f"{name:<18} {step.before:>3} -> {step.after:<3}  {step.growth:+d}{note}"
        yield TextLine(words, indent=2)


def operations(steps: Iterable[Difference]) -> Iterator[TextLine]:
    """``  captured operations 12 -> 2   (dynamo)`` of the layers that these totals are of."""
    moved: dict[tuple[int | None, int], list[str]] = {}
    for step in steps:
        if step.kind == "ops":
            moved.setdefault((step.before, step.after), []).append(step.layer or "")
    for (before, after), layers in moved.items():
        words = f"captured operations {before} -> {after}   ({', '.join(layers)})"
        yield TextLine(words, indent=2)
