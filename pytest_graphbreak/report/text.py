"""The text of a failed test, line by line: its findings, and what its graphs have left.

Below the first entry are the lines that changed since the baseline, if these are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from msgspec.structs import replace

from pytest_graphbreak.config.typed import Typed
from pytest_graphbreak.judging.finding import Finding
from pytest_graphbreak.judging.findings import (
    findings_of_failure,
    findings_of_record,
    look_for_lost,
    losses,
)
from pytest_graphbreak.judging.verdict import Verdict
from pytest_graphbreak.model.differences import STRICT
from pytest_graphbreak.model.record import Break, Frame, Recompile, Record
from pytest_graphbreak.report.counts import counts, first_line, headline, made_of, totals
from pytest_graphbreak.report.footer import (
    NO_LINES,
    Context,
    SourceLines,
    explain,
    footer,
    measured_with,
)
from pytest_graphbreak.report.lines import at, code, detail, lines, position, to_try
from pytest_graphbreak.text.output import BLANK, TextLine, blocks, noun, plural


def failure(verdict: Verdict, record: Record, context: Context) -> list[TextLine]:
    """Return the text of a failure; its sections are separated by blank lines."""
    if verdict.name == "error":
        return _blind(record)
    return [
        *blocks(
            [headline(verdict, record)],
            _causes(nowhere(verdict, record, context), verdict, record, context.shown),
            # Numbers without consequences are left out: recompiles repeat operations, which is no
            # gain.
            counts(
                verdict,
                record,
                context.fixtures,
                verdict.ops if verdict.name in STRICT else verdict.lost,
            ),
            footer(verdict, record, context),
        )
    ]


def block_failure(verdict: Verdict, record: Record, typed: Typed) -> list[TextLine]:
    """Return the text of a block or a script that exceeded its cap, without baseline and marker."""
    if verdict.name == "error":
        return _blind(record)
    return [
        *blocks(
            [headline(verdict, record)],
            places(verdict, record),
            counts(verdict, record),
            explain(verdict, record, typed),
        )
    ]


def _causes(
    nowhere: Iterable[TextLine], verdict: Verdict, record: Record, shown: SourceLines = NO_LINES
) -> list[TextLine]:
    """Return new and removed places, then what was lost if these do not explain it."""
    lost = losses(verdict, record)
    head = () if lost else nowhere
    text = [*head, *places(verdict, record), *loss_lines(lost, record, shown)]
    return with_changed(text, verdict, record, shown)


def _blind(record: Record) -> list[TextLine]:
    first, *others = record.errors
    return [
        first_line(f"could not see: {first}"),
        BLANK,
        *(TextLine(f"and {error}", indent=2) for error in others),
        TextLine("A gate that cannot see does not pass, and nothing is recorded.", indent=2),
    ]


def describe(record: Record) -> list[TextLine]:
    """Return the record of a test that failed by itself, for the section below its traceback."""
    text = [TextLine(totals(record))]
    for layer in record.layers:
        if parts := made_of(layer, record):
            text.append(TextLine(f"{layer}: {parts}", indent=2))
    for finding in findings_of_record(record)[:MOST_PLACES]:
        text += lines(finding)
    text += [TextLine(error, indent=2) for error in record.errors]
    text += measured_with(record)
    return text


_MOST: Final = 3


def with_changed(
    lines: Sequence[TextLine], verdict: Verdict, record: Record, shown: SourceLines
) -> list[TextLine]:
    """Return entries with the lines that changed since the baseline, below the first entry.

    They are left out if the entry has one of them already. A loss has no line of its own, so a
    changed line is the first thing that is said of it.
    """
    heads = [at for at, line in enumerate(lines) if line.kind in ("new", "lost")]
    first = next((at for at in heads if lines[at].kind == "new"), next(iter(heads), None))
    if first is None:
        return [*lines]
    signs = (at for at, line in enumerate(lines) if line.head.strip()[:1] in ("+", "-", "~"))
    end = min((at for at in (*heads, *signs) if at > first), default=len(lines))
    entry = "\n".join(line.text for line in lines[first:end])
    commit, changed = shown.changed_lines(places_of(verdict, record))
    if any(f"{change.where.file}:{change.where.line} " in f"{entry} " for change in changed):
        return [*lines]
    below = []
    most = _MOST
    if lines[first].kind == "lost":
        end, most = first + 1, 1
    for change in changed[:most]:
        word = "deleted" if change.deleted else "changed"
        below.append(detail(f"{word} since the baseline ({commit}): {position(change.where)}"))
        below += code(change.where)
    if len(changed) > most > 1:
        below.append(detail(f"... and {plural(len(changed) - most, 'more line')}"))
    return [*lines[:end], *below, *lines[end:]]


def places_of(verdict: Verdict, record: Record) -> list[Frame]:
    """Return the places of all changes, what is behind them, and the calls that lead to them."""
    frames: dict[Frame, None] = {}
    for change in verdict.changes:
        frames |= dict.fromkeys((change.where,))
        for item in change.items_of(record):
            behind: tuple[Frame, ...] = ()
            if isinstance(item, Recompile):
                behind = (item.origin, item.guard)
            elif isinstance(item, Break):
                behind = (item.disabled,)
            frames |= dict.fromkeys((item.where, *behind, *getattr(item, "stack", ())))
    return [frame for frame in frames if frame.file]


MOST_PLACES = 12
"""The number of places that a failure shows in full; the rest are counted."""


def places(verdict: Verdict, record: Record) -> Iterator[TextLine]:
    """Yield new and removed places; the rest of a long list is counted.

    Each advice is given only once. What is lost is no place here (``loss_lines``), nor is another
    function that is compiled in its stead.
    """
    findings = findings_of_failure(verdict, record)
    if verdict.name == "lost":
        findings = [finding for finding in findings if not finding.is_entry]
    advised = set[str]()
    for line in chain.from_iterable(map(lines, findings[:MOST_PLACES])):
        if line.kind != "advice" or line.text not in advised:
            yield line
        advised |= {line.text} if line.kind == "advice" else set()
    if len(findings) > MOST_PLACES:
        yield _left_out(len(findings) - MOST_PLACES, "more place")


def nowhere(verdict: Verdict, record: Record, context: Context) -> Iterator[TextLine]:
    """Yield what to look for if a layer compiles nothing any more and nothing broke."""
    if not verdict.empties_a_layer or record.breaks or record.eager:
        return
    if record.frames.attempted:
        number = f"{record.frames.attempted} {noun(record.frames.attempted, 'function')}"
        yield _lost_line(f"{number} looked at, and no tensor operation found to compile")
        words = "compile the function that computes, and not one that only calls or returns"
    else:
        layer = next((total.layer for total in verdict.lost if not total.after), "")
        others = any(record.graphs.values())
        yield _lost_line(f"nothing was compiled on {layer}" if others else "nothing was compiled")
        words = look_for_lost(verdict)
    yield from _notes(record)
    yield from at(context.test)
    yield from to_try(words)


def loss_lines(lost: Sequence[Finding], record: Record, shown: SourceLines) -> Iterator[TextLine]:
    """Yield what is compiled no more, or less of it: the first place, and how many others."""
    if not lost:
        return
    first, *others = lost
    yield _lost_line(first.title)
    yield from at(replace(shown.definition_of(first.where), code=""))
    if others:
        names = ", ".join(finding.where.function for finding in others[:3])
        yield detail(f"and {plural(len(others), 'other')}: {names}{', ...' * bool(others[3:])}")
    yield from _notes(record)
    yield from to_try(*first.fix)


def _notes(record: Record) -> Iterator[TextLine]:
    """Yield notes that may explain why less was compiled: a cache, or a setting."""
    yield from map(detail, record.notes)


def _lost_line(text: str) -> TextLine:
    return TextLine(text, "lost", 2, "- ")


def _left_out(count: int, what: str) -> TextLine:
    return TextLine(f"... and {plural(count, what)} (the JSON report has them all)", indent=2)
