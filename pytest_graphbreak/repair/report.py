"""The report of a search: what was done for each break, what it gained, and what is left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from pytest_graphbreak.judging.finding import Finding
from pytest_graphbreak.judging.findings import findings_of_record
from pytest_graphbreak.model.record import Graph, Record
from pytest_graphbreak.repair.outcome import Problem, SearchResult
from pytest_graphbreak.repair.prove import Proof
from pytest_graphbreak.report.lines import DEPTH, lines
from pytest_graphbreak.text.output import BLANK, TextLine, plural

_READS: Final = ("access", "pending", "recompile")
"""The causes of graphs of a lazy program: values are read there, or it compiles again."""
_SEEDS: Final = (
    "torch_xla sets the next seed of the device with each graph that it compiles, so what "
    "is drawn there are other random numbers than before"
)
"""``_xla_step_marker`` of torch_xla 2.9; ``fix`` itself holds the seed (``repair.steady``)."""


def nothing(outcome: SearchResult) -> Iterator[TextLine]:
    """Yield what is said of a program without breaks and recompiles of Dynamo."""
    record, count = outcome.first.record, plural(outcome.before, "graph")
    cut = [x for x in record.graph_list if x.layer == "xla" and x.cause in _READS]
    if not cut:
        yield TextLine(f"Nothing to fix: {count}, no break, no recompile.")
        return
    lazy = not record.graphs.get("dynamo")
    what = "where torch.compile makes none" if lazy else "without breaks and recompiles of Dynamo"
    yield TextLine(f"No remedy for a program of {count}, {what}:")
    for finding in findings_of_record(Record(("xla",), {"xla": len(cut)}, graph_list=tuple(cut))):
        yield from lines(replace(finding, stack=(), circumstances=""))


def report(outcome: SearchResult, proof: Proof | None) -> Iterator[TextLine]:
    """Yield the whole report."""
    for problem in outcome.problems:
        yield from _problem(problem, outcome.last.record)
        yield BLANK
    for name, title in (("drops", "side effect lost"), ("moves", "side effect moved")):
        yield from _notes(title, [getattr(patch, name) for patch in outcome.patches])
    notes = [patch.note for patch in outcome.patches]
    on_device = outcome.last.record.graphs.get("xla") and outcome.after != outcome.before
    yield from _notes("note", [*notes, _SEEDS if notes and on_device else ""])
    if outcome.stopped:
        yield TextLine(f"stopped: {outcome.stopped}; what was proved until then is kept")
    yield TextLine(f"graphs {outcome.before} -> {outcome.after}")
    if proof is not None and not proof.comparison.words:
        yield TextLine(f"proved: {proof.compared()}")


def _notes(title: str, texts: list[str]) -> Iterator[TextLine]:
    yield from (TextLine(f"{title}: {text}") for text in dict.fromkeys(filter(None, texts)))


def _problem(problem: Problem, record: Record) -> Iterator[TextLine]:
    """Yield a problem as a finding, with its advice as long as it is open, and what was tried."""
    if problem.item is None:
        yield TextLine("recompiles", indent=4)
    for finding in _findings(problem, record):
        fix = () if problem.fixed else _untried(problem, finding)
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


def _findings(problem: Problem, record: Record) -> list[Finding]:
    """Return a break, or the graphs of a device that it stands for, or the recompiles left."""
    item = problem.item
    if item is None:
        return findings_of_record(Record(("dynamo",), recompile_list=record.recompile_list))
    if item.layer != "xla":
        return findings_of_record(Record((item.layer,), breaks=(item,)))
    cause, _, words = item.reason.partition(": ")
    graph = Graph("xla", cause=cause, where=item.where, reason=words)
    return findings_of_record(
        Record(("xla",), {"xla": item.count}, graph_list=(graph,) * item.count)
    )


def _untried(problem: Problem, finding: Finding) -> tuple[str, ...]:
    """Return the advice of a finding without the settings that were tried."""
    titles = " ".join(attempt.patch.title for attempt in problem.tried)
    parts = [part for text in finding.fix for part in text.split(", or ")]
    names = {part: part.partition(" = ")[0].rpartition(".")[2] for part in parts}
    return (", or ".join(part for part in parts if names[part] not in titles),)


def _state(word: str, text: str) -> TextLine:
    """Return a line that says what happened to a break, and why."""
    return TextLine(text, indent=DEPTH, head=f"{word}  ")
