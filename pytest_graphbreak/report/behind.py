"""The lines of a project's source that are behind a change, below its entry.

They are questions to the source of a test (``footer.SourceLines``), put into words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_graphbreak.judging.totals import OUTSIDE
from pytest_graphbreak.judging.verdict import Verdict
from pytest_graphbreak.layers.statements import called_in
from pytest_graphbreak.model.record import NOWHERE, Frame, Graph, Recompile, Record
from pytest_graphbreak.report.footer import SourceLines
from pytest_graphbreak.report.lines import code, detail, position
from pytest_graphbreak.report.root_causes import Occurrence
from pytest_graphbreak.text.output import TextLine

_EVERYWHERE = ("forward", "__call__")
"""Methods of each module, whose names say nothing."""
_LIMITS = ("recompile_limit", "cache_size_limit")
_MOST_CHANGED = 3
"""The number of lines that changed since the baseline which an entry shows."""
_PLAIN = "may run without the compiler by"
_BECAUSE = "without the compiler because of"


def way(verdict: Verdict, record: Record, shown: SourceLines) -> Iterator[TextLine]:
    """Yield the line by which the test now calls the outermost function that is not reached."""
    function = outermost(verdict)
    if not function.file:
        return
    if (because := shown.uncompiled(function)).line:
        yield from line_of_source(_BECAUSE, because, ())
    else:
        name = function.function.rpartition(".")[2]
        uses = shown.uses(name) if name not in _EVERYWHERE else ()
        known = dict.fromkeys(uses, "used by")
        known |= {line: "compiled by" for line in shown.compiles() if line not in known}
        runs = (run.where for run in record.execution_list[:2])
        known |= {line: "compiled code is called by" for line in runs if line not in known}
        for line, words in known.items():
            yield from line_of_source(words, line, ())


def compiled_by(shown: SourceLines, function: Frame = NOWHERE) -> Iterator[TextLine]:
    """Yield the lines that compile what the test runs, or one function."""
    for line in shown.compiles(function):
        yield from line_of_source("compiled by", line, ())


def plain_call(shown: SourceLines) -> Iterator[TextLine]:
    """Yield the line that may run the model uncompiled, and what sets the function it calls."""
    call = shown.plain_call()
    yield from line_of_source(_PLAIN, call, ())
    yield from line_of_source(
        "which is set in", shown.handed(call) if call.line else NOWHERE, (call,)
    )


def outermost(verdict: Verdict) -> Frame:
    """Return the function with the most operations among those that are no longer reached."""
    functions = (one for one in verdict.changes if one.kind == "function" and not one.was)
    return next((one.where for one in functions if not one.after), NOWHERE)


def in_source(one: Occurrence, verdict: Verdict, shown: SourceLines) -> Iterator[TextLine]:
    """Yield what runs a line so often, or what replaced a line that was compiled."""
    if one.change.kind in ("execution", "read"):
        for where in shown.repeated(one.where):
            yield from line_of_source("repeated by", where, ())
        if one.change.kind == "execution" and one.change.is_new:
            yield from compiled_by(shown)
    elif one.change.kind == "break" and one.items:
        yield from line_of_source("disabled in", shown.disables(one.where), ())
    elif one.change.kind == "recompile" and one.items:
        first = one.first
        if isinstance(first, Recompile) and first.origin.line:
            for where in shown.feeding(first.origin):
                yield from line_of_source("made in", where, (*first.stack, first.origin))
    elif one.change.kind == "eager" and one.items:
        for name in _LIMITS:
            for where in shown.uses(name) if name in one.change.reason else ():
                yield from line_of_source("set in", where, ())
    elif not one.items and verdict.name == "lost":
        yield from line_of_source(_BECAUSE, shown.replaced(one.where), ())
    elif one.items and one.is_entry:
        yield from line_of_source("compiled again after", shown.resets(), ())
        if one.change.is_new and not one.change.unsure:
            yield from compiled_by(shown, one.where)
    elif one.change.cause == OUTSIDE and one.change.is_new and _was_compiled(one, verdict):
        function = _compiled_before(one, verdict) or one.where
        defined = shown.defined(function)
        yield from line_of_source("no longer compiled:", defined if defined.line else NOWHERE, ())


def with_changed(
    lines: Sequence[TextLine], verdict: Verdict, record: Record, shown: SourceLines
) -> list[TextLine]:
    """Return entries with the lines that changed since the baseline, below the first entry.

    They are left out if the entry has one of them already.
    """
    heads = [at for at, line in enumerate(lines) if line.kind in ("new", "lost")]
    first = next((at for at in heads if lines[at].kind == "new"), next(iter(heads), None))
    if first is None:
        return [*lines]
    signs = (at for at, line in enumerate(lines) if line.head.strip()[:1] in ("+", "-", "~"))
    end = min((at for at in (*heads, *signs) if at > first), default=len(lines))
    entry = "\n".join(line.text for line in lines[first:end])
    commit, changed = shown.changed(_frames(verdict, record))
    words = f"changed since the baseline ({commit}):"
    if any(f"{frame.file}:{frame.line} " in f"{entry} " for frame in changed):
        return [*lines]
    more = [detail(f"... and {len(changed) - _MOST_CHANGED} more lines")]
    below = [
        *(line for frame in changed[:_MOST_CHANGED] for line in line_of_source(words, frame, ())),
        *(more if len(changed) > _MOST_CHANGED else ()),
    ]
    return [*lines[:end], *below, *lines[end:]]


def _frames(verdict: Verdict, record: Record) -> list[Frame]:
    """Return the places of all changes, with the calls that lead to them."""
    found: dict[Frame, None] = {}
    for change in verdict.changes:
        found |= dict.fromkeys((change.where,))
        for item in change.found(record):
            found |= dict.fromkeys((item.where, *getattr(item, "stack", ())))
    return [frame for frame in found if frame.file]


def _compiled_before(one: Occurrence, verdict: Verdict) -> Frame | None:
    """Return the outermost function that runs now and that a line called compiled before."""
    gone = {
        name
        for change in verdict.changes
        if change.is_gone and change.kind == "graph" and change.cause != OUTSIDE
        for name in called_in(change.where.code)
    }
    first = one.first
    stack = first.stack if isinstance(first, Graph) else ()
    return next((frame for frame in stack if frame.function.rpartition(".")[2] in gone), None)


def _was_compiled(one: Occurrence, verdict: Verdict) -> bool:
    """Return whether the operation may be in a function that used to be called compiled."""
    return any(
        gone.is_gone
        and gone.layer == one.change.layer
        and gone.where.function != one.where.function
        for gone in verdict.changes
        if gone.kind == "graph" and gone.cause != OUTSIDE
    )


def line_of_source(words: str, origin: Frame, shown: Sequence[Frame]) -> Iterator[TextLine]:
    """Yield the line that sets something, unless it is shown anyway."""
    if origin.file and origin not in shown:
        yield from (detail(f"{words} {position(origin)}"), *code(origin))
