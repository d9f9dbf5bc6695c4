"""The lines that changed since the baseline, below the first entry of a failure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pytest_graphbreak.judging.verdict import Verdict
from pytest_graphbreak.model.record import Break, Frame, Recompile, Record
from pytest_graphbreak.report.footer import SourceLines
from pytest_graphbreak.report.lines import code, detail, position
from pytest_graphbreak.text.output import TextLine, plural

_MOST: Final = 3


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
    commit, changed = shown.changed_lines(places_of(verdict, record))
    if any(f"{change.where.file}:{change.where.line} " in f"{entry} " for change in changed):
        return [*lines]
    below = []
    for change in changed[:_MOST]:
        word = "deleted" if change.deleted else "changed"
        below.append(detail(f"{word} since the baseline ({commit}): {position(change.where)}"))
        below += code(change.where)
    if len(changed) > _MOST:
        below.append(detail(f"... and {plural(len(changed) - _MOST, 'more line')}"))
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
