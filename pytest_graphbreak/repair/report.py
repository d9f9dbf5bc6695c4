"""The report of a repair: a table of what was mended, and what was not and why."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_graphbreak import advice
from pytest_graphbreak.repair.search import Problem, SearchResult
from pytest_graphbreak.repair.trial import Trial
from pytest_graphbreak.text.numbers import plural
from pytest_graphbreak.text.safe import printable
from pytest_graphbreak.text.terminal import table


def lines(outcome: SearchResult, width: int = 0) -> Iterator[str]:
    """The whole report, as plain lines; its table for a terminal of this width."""
    for problem in outcome.problems:
        yield from _problem(problem)
        yield ""
    rows = [[printable(cell) for cell in row] for row in _rows(outcome)]
    yield from table(rows, width)
    drops = [patch.drops for patch in outcome.kept if patch.drops]
    moves = [patch.moves for patch in outcome.kept if patch.moves]
    for words in dict.fromkeys(drops):
        yield f"side effect lost: {printable(words)} (--keep-side-effects forbids this)"
    for words in dict.fromkeys(moves):
        yield f"side effect moved: {words}"
    for words in dict.fromkeys(patch.note for patch in outcome.kept if patch.note):
        yield f"note: {printable(words)}"
    if outcome.stopped:
        yield f"stopped: {outcome.stopped}; what was proved until then is kept"


def _problem(problem: Problem) -> Iterator[str]:
    item = problem.item
    times = f"   x{item.count}" if item is not None and item.count > 1 else ""
    yield f"{printable(problem.title)}{times}"
    if item is not None:
        yield printable(f"    {item.where.file}:{item.where.line} in {item.where.function}")
        yield printable(f"        {item.where.code}")
    for patch in problem.kept:
        yield f"    kept  {printable(patch.title)}"
    if problem.kept:
        if not problem.mended:
            yield "    still there, with fewer graphs"
    elif problem.mended:
        yield "    gone  with the patches for other places"
    else:
        yield f"    open  {printable(_why(problem))}"
    for one in problem.tried:
        if one.why and one.why != "it is there already":
            yield printable(f"      tried, not kept: {one.patch.title}: {one.why}")


def _why(problem: Problem) -> str:
    if problem.note:
        return problem.note
    words = advice.short(problem.item) if problem.item is not None else None
    tail = f" By hand: {words}" if words else ""
    if not problem.tried:
        return f"no remedy here applies to it.{tail}"
    return f"no remedy held.{tail}"


def _rows(outcome: SearchResult) -> Iterator[tuple[str, ...]]:
    """The cells of the table."""
    yield ("break", "remedy", "graphs", "outputs equal", "time")
    for problem in outcome.problems:
        where = problem.item.where if problem.item is not None else None
        name = problem.title if where is None else f"{where.function}:{where.line}"
        if problem.kept:
            moved = f"{problem.before} -> {problem.after}"
            for number, patch in enumerate(problem.kept):
                yield (name if not number else "", patch.title, moved, "yes", "")
        else:
            yield (name, "mended by another" if problem.mended else "none", "", "", "")
    last = outcome.last
    equal = _compared(last) if outcome.kept else ""
    yield ("all", "", f"{outcome.before} -> {outcome.after}", equal, _time(outcome))


def _compared(last: Trial) -> str:
    """What was compared with the original and found equal."""
    if last.compared:
        inputs = plural(last.compared, "input")
        return f"yes, {inputs}{', gradients too' if last.trained else ''}"
    if last.lines:
        return f"yes, {plural(len(last.lines), 'printed line')}; no call was seen"
    return "it ran; no output was seen"


def _time(outcome: SearchResult) -> str:
    """A call that is compiled already, before and after; the whole run where there is none."""
    before, after = outcome.first, outcome.last
    if before.warm is not None and after.warm is not None:
        return f"{_call(before)} -> {_call(after)} a call"
    return f"{before.seconds:.1f} s -> {after.seconds:.1f} s"


def _call(trial: Trial) -> str:
    return f"{(trial.warm or 0) * 1000:.2f} ms"
