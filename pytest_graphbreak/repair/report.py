"""The report of a search: what was done for each break, what it gained, and what is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from msgspec.structs import replace

from pytest_graphbreak.judging.finding import Finding
from pytest_graphbreak.judging.findings import findings_of_record
from pytest_graphbreak.model.record import Graph, Record
from pytest_graphbreak.repair.gain import places, recompiles
from pytest_graphbreak.repair.outcome import Problem, SearchResult
from pytest_graphbreak.report.lines import DEPTH, lines
from pytest_graphbreak.text.numbers import plural
from pytest_graphbreak.text.output import BLANK, TextLine, indent_lines

Shown = Callable[[Finding], Iterator[TextLine]]
"""Returns what is advised for a finding that is left: code before and after."""

_READS: Final = ("access", "pending", "recompile")
"""The causes of graphs of a lazy program: values are read there, or it compiles again."""


def cuts(record: Record) -> list[Finding]:
    """Return where a program is cut whose graphs have no break of Dynamo: no remedy is for that."""
    cut = [x for x in record.graph_list if x.layer == "xla" and x.cause in _READS]
    return findings_of_record(Record(("xla",), {"xla": len(cut)}, graph_list=tuple(cut)))


def nothing(outcome: SearchResult, advice: Shown) -> Iterator[TextLine]:
    """Yield what is said of a program without breaks and recompiles of Dynamo."""
    record, count = outcome.first.record, plural(outcome.before, "graph")
    findings = cuts(record)
    if not findings:
        yield TextLine(f"Nothing to fix: {count}, no break, no recompile.")
        return
    lazy = not record.graphs.get("dynamo")
    what = "where torch.compile makes none" if lazy else "without breaks and recompiles of Dynamo"
    yield TextLine(f"No remedy for a program of {count}, {what}:")
    for finding in findings:
        yield from lines(replace(finding, stack=(), circumstances=""))
        yield from indent_lines(advice(finding), DEPTH)


def report(outcome: SearchResult, advice: Shown) -> Iterator[TextLine]:
    """Yield the whole report."""
    for problem in outcome.problems:
        yield from _problem(problem, outcome.last.record, advice)
        yield BLANK
    notes = [patch.note for patch in outcome.patches]
    yield from (TextLine(f"note: {text}") for text in dict.fromkeys(filter(None, notes)))
    first, last = outcome.first.record, outcome.last.record
    words = f"graphs {outcome.before} -> {outcome.after}"
    if outcome.before == outcome.after:  # then the gain is in one of these, if there is any
        breaks = ("breaks", len(places(first)), len(places(last)))
        for name, old, new in (breaks, ("recompiles", recompiles(first), recompiles(last))):
            words += f", {name} {old} -> {new}" if new < old else ""
    yield TextLine(words)


def _problem(problem: Problem, record: Record, advice: Shown) -> Iterator[TextLine]:
    """Yield a problem as a finding, with its advice as long as it is open, and what was tried."""
    if problem.item is None:
        yield TextLine("recompiles", indent=4)
    findings = _findings(problem, record)
    for finding in findings:
        fix = () if problem.fixed or problem.tried else finding.fix
        yield from lines(replace(finding, stack=(), circumstances="", fix=fix))
    for patch in problem.patches:
        yield _state("kept", f"{patch.title} ({problem.before} -> {problem.after})")
    if problem.fixed and not problem.patches:
        yield _state("gone", "with the patches for other places")
    elif not problem.fixed:
        why = "no remedy worked" if problem.tried else "no remedy here applies to it"
        yield _state("open", "it is still there" if problem.patches else why)
    for attempt in problem.tried:
        yield TextLine(f"tried, not kept: {attempt.patch.title}: {attempt.why}", indent=DEPTH + 2)
    for finding in () if problem.fixed else findings:
        yield from indent_lines(advice(finding), DEPTH)


def _findings(problem: Problem, record: Record) -> list[Finding]:
    """Return a break, or the graphs of a device that it stands for, or the recompiles left."""
    item = problem.item
    if item is None:
        return findings_of_record(Record(("dynamo",), recompile_list=record.recompile_list))
    if item.layer != "xla":
        return findings_of_record(Record((item.layer,), breaks=(item,)))
    graph = Graph("xla", cause="split", where=item.where, reason=item.reason)
    return findings_of_record(
        Record(("xla",), {"xla": item.count}, graph_list=(graph,) * item.count)
    )


def _state(word: str, text: str) -> TextLine:
    """Return a line that says what happened to a break, and why."""
    return TextLine(text, indent=DEPTH, head=f"{word}  ")
