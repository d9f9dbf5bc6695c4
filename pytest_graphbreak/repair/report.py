"""The report of a search: what was done for each break, what it gained, and what is left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_graphbreak import advice
from pytest_graphbreak.model.record import Break, Graph, Record
from pytest_graphbreak.repair.gain import Problem, SearchResult, by_hand
from pytest_graphbreak.repair.trial import Trial
from pytest_graphbreak.text.output import BLANK, TextLine, plural
from pytest_graphbreak.text.safe import printable
from pytest_graphbreak.text.terminal import table

_MOST_LEFT: Final = 3
"""The number of recompiles that are listed where no remedy worked."""


def nothing(outcome: SearchResult) -> Iterator[TextLine]:
    """Yield what is said of a program without breaks and recompiles."""
    found, made = by_hand(outcome.first.record), plural(outcome.before, "graph")
    if not found:
        yield TextLine(f"Nothing to fix: {made}, no break, no recompile.")
        return
    lazy = not outcome.first.record.graphs.get("dynamo")
    what = "where torch.compile makes none" if lazy else "without breaks and recompiles of Dynamo"
    yield TextLine(f"No remedy for a program of {made}, {what}:")
    for item in found:
        yield from _problem(Problem(item, outcome.before))


def report(outcome: SearchResult, width: int = 0) -> Iterator[TextLine]:
    """Yield the whole report, with its table for a terminal of this width."""
    for problem in outcome.problems:
        yield from _problem(problem)
        if problem.item is None and not problem.fixed:
            yield from _left(outcome.last.record)
        yield BLANK
    rows = [[printable(cell) for cell in row] for row in _rows(outcome)]
    yield from (TextLine(row, whole=True) for row in table(rows, width))
    drops = [patch.drops for patch in outcome.kept if patch.drops]
    moves = [patch.moves for patch in outcome.kept if patch.moves]
    for words in dict.fromkeys(drops):
        yield TextLine(f"side effect lost: {words} (--keep-side-effects forbids this)")
    for words in dict.fromkeys(moves):
        yield TextLine(f"side effect moved: {words}")
    for words in dict.fromkeys(patch.note for patch in outcome.kept if patch.note):
        yield TextLine(f"note: {words}")
    if outcome.kept and outcome.last.record.graphs.get("xla") and outcome.after != outcome.before:
        yield TextLine(f"note: {_SEEDS}")
    if outcome.reference and outcome.kept:
        yield TextLine(
            "other inputs are compared with the compiled program without patches, which differs "
            f"from the uncompiled one: {outcome.reference}"
        )
    if outcome.prints and outcome.kept:
        yield TextLine(
            "compiled without patches it prints other lines than uncompiled; with them, the same"
        )
    yield from _compiled_again(outcome)
    if outcome.stopped:
        yield TextLine(f"stopped: {outcome.stopped}; what was proved until then is kept")
    if outcome.kept and not outcome.last.codegen:
        yield TextLine("note: it was not run with inductor's code generation, only without")


_SEEDS: Final = (
    "torch_xla sets the next seed of the device with each graph that it compiles, so what "
    "is drawn there are other random numbers than before"
)
"""``_xla_step_marker`` of torch_xla 2.9; ``fix`` itself holds the seed (``repair.steady``)."""


def _compiled_again(outcome: SearchResult) -> Iterator[TextLine]:
    """Yield for which other inputs the program is compiled again, and which line makes it so."""
    said: dict[str, list[str]] = {}
    lines: dict[str, list[TextLine]] = {}
    for one in outcome.last.again if outcome.kept else ():
        inputs = _OTHERS.get(one["kind"].partition(" ")[0], "other values")
        said.setdefault(one["why"], []).append(inputs)
        if at := one if one.get("code") else one.get("at"):
            place = f"{at['file']}:{at['line']} in {at['function']}"
            lines[one["why"]] = [TextLine(place, "place", 4), TextLine(at["code"], "source", 8)]
    for why, kinds in said.items():
        yield TextLine(f"compiled again for {' and '.join(dict.fromkeys(kinds))}: {why}")
        yield from lines.get(why, ())
    if said and outcome.plain is not None and outcome.plain.again:
        yield TextLine("the program without these patches is compiled again for them as well")


_OTHERS: Final = {
    "batch": "each batch size",
    "length": "each length",
    "shorter": "each length",
    "longer": "each length",
    "positions": "other positions",
    "shapes": "images of another shape",
}
"""What varies in inputs of a kind (``repair.others``), by its first word."""


def _problem(problem: Problem) -> Iterator[TextLine]:
    item = problem.item
    times = f"   x{item.count}" if item is not None and item.count > 1 else ""
    yield TextLine(f"{problem.title}{times}")
    if item is not None:
        place = f"{item.where.file}:{item.where.line} in {item.where.function}"
        yield TextLine(place, "place", 4)
        yield TextLine(item.where.code, "source", 8)
    for patch in problem.kept:
        yield _state("kept", patch.title)
    if problem.kept:
        if not problem.fixed:
            yield TextLine("still there, with fewer graphs", indent=4)
    elif problem.fixed:
        yield _state("gone", "with the patches for other places")
    else:
        yield _state("open", _why(problem))
    for one in problem.tried:
        if one.why and one.why != "it is there already":
            yield TextLine(f"tried, not kept: {one.patch.title}: {one.why}", indent=6)


def _left(record: Record) -> Iterator[TextLine]:
    """Yield the first recompiles that are left, each with the line of its guard and the advice."""
    said: set[str] = set()
    for item in record.recompile_list[:_MOST_LEFT]:
        where = item.guard if item.guard.code else item.where
        modes = "grad_mode" in item.reason
        words = _MODES if modes else f"By hand: {advice.short(item) or ''}"
        yield TextLine(f"{item.reason}", indent=4)
        yield TextLine(f"{where.file}:{where.line} in {where.function}", "place", 8)
        yield TextLine(where.code, "source", 12)
        if advice.short(item) and words not in said:
            yield TextLine(words, indent=8)
        said.add(words)


_MODES: Final = "one graph for training and one for inference, under no_grad, is normal"


def _state(word: str, text: str) -> TextLine:
    """Return a line that says what happened to a break, and why."""
    return TextLine(text, indent=4, head=f"{word}  ")


def _why(problem: Problem) -> str:
    if problem.note:
        return problem.note
    words = _by_hand(problem.item) if problem.item is not None else None
    left = ", or ".join(_untried(problem, words.split(", or "))) if words else ""
    tail = f" By hand: {left}" if left else ""
    if not problem.tried:
        return f"no remedy here applies to it.{tail}"
    return f"no remedy worked.{tail}"


def _untried(problem: Problem, advice: list[str]) -> list[str]:
    """Return the pieces of advice without what was tried and did not help: switches, operators."""
    titles = [one.patch.title for one in problem.tried]
    tried = [f"torch._dynamo.config.{title.partition(':')[0]} = True" for title in titles]
    tried += [title.removeprefix("the loop became ") for title in titles]
    return [one for one in advice if one not in tried]


def _by_hand(item: Break) -> str | None:
    """Return the advice for a break, or for the graphs of a device at one place."""
    if item.layer != "xla":
        return advice.short(item)
    cause, _, words = item.reason.partition(": ")
    return advice.short(Graph("xla", cause=cause, where=item.where, reason=words))


def _rows(outcome: SearchResult) -> Iterator[tuple[str, ...]]:
    """Yield the cells of the table."""
    yield ("break", "remedy", "graphs", "outputs equal", "time")
    for problem in outcome.problems:
        where = problem.item.where if problem.item is not None else None
        name = problem.title if where is None else f"{where.function}:{where.line}"
        if problem.kept:
            moved = f"{problem.before} -> {problem.after}"
            for number, patch in enumerate(problem.kept):
                yield (name if not number else "", patch.title, moved, "yes", "")
        else:
            yield (name, "fixed by another" if problem.fixed else "none", "", "", "")
    last = outcome.last
    equal = _compared(last) if outcome.kept else ""
    yield ("all", "", f"{outcome.before} -> {outcome.after}", equal, _time(outcome))


def _compared(last: Trial) -> str:
    """Return what was compared with the original and found equal."""
    if last.compared:
        inputs = plural(last.compared, "input")
        raising = f"; {last.raising} more raised in both" if last.raising else ""
        endless = f"; {last.endless} did not end without the compiler" if last.endless else ""
        gradients = ", gradients too" if last.trained else ""
        sizes = f"; {last.resized} more of other sizes, without inductor"
        return f"yes, {inputs}{gradients}{raising}{endless}{sizes if last.resized > 0 else ''}"
    if last.lines:
        return f"yes, {plural(len(last.lines), 'printed line')}; no call was seen"
    return "it ran; no output was seen"


def _time(outcome: SearchResult) -> str:
    """Return the time of a compiled call before and after, or of the whole run if there is none.

    Runs without inductor's code generation take another time than the program: it is left out.
    """
    before, after = outcome.first, outcome.last
    if before.codegen != after.codegen:
        return ""
    if before.warm is not None and after.warm is not None:
        return f"{_call(before)} -> {_call(after)} a call"
    return f"{before.seconds:.1f} s -> {after.seconds:.1f} s"


def _call(trial: Trial) -> str:
    return f"{(trial.warm or 0) * 1000:.2f} ms"
