"""The report of a search: what was done for each break, what it gained, and what is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from pytest_graphbreak import advice
from pytest_graphbreak.model.record import Break, Graph, Record
from pytest_graphbreak.repair.gain import graphs
from pytest_graphbreak.repair.outcome import Problem, SearchResult
from pytest_graphbreak.repair.prove import Proof
from pytest_graphbreak.text.output import BLANK, TextLine, plural
from pytest_graphbreak.text.safe import printable
from pytest_graphbreak.text.terminal import table

_MOST_RECOMPILES: Final = 3
"""The number of recompiles that are listed where no remedy worked."""
_MODES: Final = "one graph for training and one for inference, under no_grad, is normal"
_SEEDS: Final = (
    "torch_xla sets the next seed of the device with each graph that it compiles, so what "
    "is drawn there are other random numbers than before"
)
"""``_xla_step_marker`` of torch_xla 2.9; ``fix`` itself holds the seed (``repair.steady``)."""


def nothing(outcome: SearchResult) -> Iterator[TextLine]:
    """Yield what is said of a program without breaks and recompiles of Dynamo."""
    record, count = outcome.first.record, plural(outcome.before, "graph")
    reads = list(_reads(record))
    if not reads:
        yield TextLine(f"Nothing to fix: {count}, no break, no recompile.")
        return
    lazy = not record.graphs.get("dynamo")
    what = "where torch.compile makes none" if lazy else "without breaks and recompiles of Dynamo"
    yield TextLine(f"No remedy for a program of {count}, {what}:")
    for item in reads:
        yield from _problem(Problem(item, outcome.before), record)


def _reads(record: Record) -> Iterator[Break]:
    """Yield the places that make graphs without a break, each with one of its reasons.

    Values of device tensors are read there, or were pending; or the same place compiles again.
    """
    causes = ("access", "pending", "recompile")
    cut = [graph for graph in record.graph_list if graph.layer == "xla" and graph.cause in causes]
    counts = Counter((graph.cause, *graph.where.key) for graph in cut)
    first = {(graph.cause, *graph.where.key): graph for graph in reversed(cut)}
    for key, count in counts.items():
        graph = first[key]
        yield Break("xla", f"{graph.cause}: {graph.reason}", graph.where, count=count)


def report(outcome: SearchResult, proof: Proof | None, width: int = 0) -> Iterator[TextLine]:
    """Yield the whole report, with its table for a terminal of this width."""
    record = outcome.last.record
    for problem in outcome.problems:
        yield from _problem(problem, record)
        if problem.item is None and not problem.fixed:
            yield from _recompiles(record)
        yield BLANK
    cells = [[printable(cell) for cell in row] for row in _rows(outcome, proof)]
    yield from (TextLine(line, whole=True) for line in table(cells, width))
    effects: tuple[tuple[str, list[str]], ...] = (
        ("side effect lost", [patch.drops for patch in outcome.patches]),
        ("side effect moved", [patch.moves for patch in outcome.patches]),
        ("note", [patch.note for patch in outcome.patches]),
    )
    for title, words in effects:
        for text in dict.fromkeys(filter(None, words)):
            yield TextLine(f"{title}: {text}")
    if outcome.patches and record.graphs.get("xla") and outcome.after != outcome.before:
        yield TextLine(f"note: {_SEEDS}")
    if outcome.stopped:
        yield TextLine(f"stopped: {outcome.stopped}; what was proved until then is kept")


def _problem(problem: Problem, record: Record) -> Iterator[TextLine]:
    item = problem.item
    times = f"   x{item.count}" if item is not None and item.count > 1 else ""
    yield TextLine(f"{problem.title}{times}")
    if item is not None:
        place = f"{item.where.file}:{item.where.line} in {item.where.function}"
        yield TextLine(place, "place", 4)
        yield TextLine(item.where.code, "source", 8)
    for patch in problem.patches:
        yield _state("kept", patch.title)
    if problem.patches and not problem.fixed:
        remaining = "it still breaks" if item is not None else _open_words(record)
        yield TextLine(f"{remaining}, in {plural(graphs(record), 'graph')}", indent=4)
    elif problem.fixed and not problem.patches:
        yield _state("gone", "with the patches for other places")
    elif not problem.patches:
        yield _state("open", _why(problem))
    for attempt in problem.tried:
        yield TextLine(f"tried, not kept: {attempt.patch.title}: {attempt.why}", indent=6)


def _open_words(record: Record) -> str:
    return f"{plural(len(record.recompile_list), 'recompile')} left"


def _recompiles(record: Record) -> Iterator[TextLine]:
    """Yield the first recompiles that are left, each with the line of its guard and the advice."""
    printed: set[str] = set()
    for item in record.recompile_list[:_MOST_RECOMPILES]:
        where = item.guard if item.guard.code else item.where
        modes = "grad_mode" in item.reason
        words = _MODES if modes else f"By hand: {advice.short(item) or ''}"
        yield TextLine(f"{item.reason}", indent=4)
        yield TextLine(f"{where.file}:{where.line} in {where.function}", "place", 8)
        yield TextLine(where.code, "source", 12)
        if advice.short(item) and words not in printed:
            yield TextLine(words, indent=8)
        printed.add(words)


def _state(word: str, text: str) -> TextLine:
    """Return a line that says what happened to a break, and why."""
    return TextLine(text, indent=4, head=f"{word}  ")


def _why(problem: Problem) -> str:
    """Return why a problem is open, and what is left to do by hand."""
    words = _by_hand(problem.item) if problem.item is not None else None
    titles = " ".join(attempt.patch.title for attempt in problem.tried)
    untried = [part for part in (words or "").split(", or ") if part and _last(part) not in titles]
    tail = f" By hand: {', or '.join(untried)}" if untried else ""
    if problem.note:
        return problem.note
    return f"{'no remedy worked' if problem.tried else 'no remedy here applies to it'}.{tail}"


def _last(advice: str) -> str:
    """Return the name in a piece of advice: of a setting without its module and value."""
    return advice.partition(" = ")[0].rpartition(".")[2]


def _by_hand(item: Break) -> str | None:
    """Return the advice for a break, or for the graphs of a device at one place."""
    if item.layer != "xla":
        return advice.short(item)
    cause, _, words = item.reason.partition(": ")
    return advice.short(Graph("xla", cause=cause, where=item.where, reason=words))


def _rows(outcome: SearchResult, proof: Proof | None) -> Iterator[tuple[str, ...]]:
    """Yield the cells of the table."""
    yield ("break", "remedy", "graphs", "outputs equal")
    for problem in outcome.problems:
        where = problem.item.where if problem.item is not None else None
        name = problem.title if where is None else f"{where.function}:{where.line}"
        moved = f"{problem.before} -> {problem.after}"
        for number, patch in enumerate(problem.patches):
            yield (name if not number else "", patch.title, moved, "yes")
        if not problem.patches:
            yield (name, "fixed by another" if problem.fixed else "none", "", "")
    equal = _comparison_text(outcome, proof) if outcome.patches else ""
    yield ("all", "", f"{outcome.before} -> {outcome.after}", equal)


def _comparison_text(outcome: SearchResult, proof: Proof | None) -> str:
    """Return what was compared with the original and found equal."""
    proved = proof.comparison if proof is not None else outcome.comparison
    count = max(proved.inputs, outcome.comparison.inputs)
    if not count:
        return "yes, printed lines; no call was seen" if outcome.last.lines else "it ran"
    raised = f"; {proved.raised} more raised in both" if proved.raised else ""
    gradients = ", gradients too" if outcome.last.trained else ""
    endless = len(outcome.first.endless)
    ends = f"; {endless} did not end without the compiler" if endless else ""
    refused = "; gradients of the inputs are refused" if outcome.comparison.refused else ""
    return f"yes, {plural(count, 'input')}{gradients}{raised}{ends}{refused}"
