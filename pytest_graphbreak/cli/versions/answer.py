"""Describes the result of a search: commit or release, both sides, part of the difference."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final

from pytest_graphbreak.cli.versions.bisecting import Bisectable, BisectResult, MeasuredEnd
from pytest_graphbreak.judging.verdict import Verdict, judge
from pytest_graphbreak.model.record import Eager, Frame, Record
from pytest_graphbreak.report import text
from pytest_graphbreak.report.rejudge import budget_of
from pytest_graphbreak.report.root_causes import reported
from pytest_graphbreak.runs.union import SeenTest
from pytest_graphbreak.text.output import BLANK, TextLine, labelled
from pytest_graphbreak.text.safe import cut

_START: Final = re.compile(r"^(?=@@ -)", re.MULTILINE)
_HEAD: Final = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_SIGNS: Final = ("+", "-", " ", "\\")
LONGEST: Final = 40
"""The number of lines of one hunk that are shown."""
MOST: Final = 3
"""The number of places for which a part of the difference is shown."""
MOST_NAMED: Final = 10
"""The number of files, commits or releases that are named; the rest are counted."""


def step(
    versions: Bisectable, word: str, name: str, side: MeasuredEnd | None, why: str
) -> TextLine:
    """Return the line for a step: ``good  1a2b3c4d5e  2026-08-21  Add the model   dynamo 1``."""
    end = counts(side.record) if side is not None else f"skipped: {cut(why)}"
    return labelled(word, f"{versions.title(name)}   {end}", width=7)


def counts(record: Record) -> str:
    """Return counts as text: ``dynamo 3, xla 3, 1 break``."""
    parts = [f"{layer} {record.graphs.get(layer, 0)}" for layer in record.layers]
    for count, word in (
        (sum(record.recompiles.values()), "recompile"),
        (len(record.breaks), "break"),
        (len(record.eager), "eager"),
    ):
        if count:
            parts.append(f"{count} {word}{'s' if count > 1 and word != 'eager' else ''}")
    return ", ".join(parts) or "nothing was compiled"


def lines(found: BisectResult, versions: Bisectable) -> Iterator[TextLine]:
    """Yield the report on an answer."""
    nodeid = found.after.test.nodeid
    yield BLANK
    if len(found.answers) == 1:
        yield TextLine(f"{nodeid} moved with")
    else:
        yield TextLine(
            f"{nodeid} moved with one of these; those before the last could not be tried"
        )
    yield BLANK
    for name in found.answers[-MOST_NAMED:]:
        yield TextLine(versions.title(name), indent=2)
    if len(found.answers) > MOST_NAMED:
        yield TextLine(f"... and {len(found.answers) - MOST_NAMED:,} before them", indent=2)
    yield BLANK
    for word, side in (("before", found.before), ("after", found.after)):
        label = f"{versions.label(side.name):<12} "
        yield TextLine(counts(side.record), head=f"{word:<7} {label}")
    yield BLANK
    yield from text.between(*_judged(found.before, found.after))
    yield BLANK
    yield from _difference(found, versions)
    if counts(found.after.record) != counts(found.end.record):
        yield BLANK
        words = f"It moved again after that: {counts(found.end.record)} at --bad. "
        yield TextLine(f"{words}To find that, too: --good {versions.label(found.after.name)}")


def _judged(before: MeasuredEnd, after: MeasuredEnd) -> tuple[Verdict, Record]:
    """Return one side compared with the other, on the layers that both observed."""
    seen = SeenTest(before.test.nodeid, before.report.profile, before.test, before.report)
    expected, record = budget_of(seen, after.record)
    # Changed code in the same package is the target of the search, so operations are compared.
    expected = replace(expected, packages={})
    return judge(record, expected, versions=after.report.versions), record


def _difference(found: BisectResult, versions: Bisectable) -> Iterator[TextLine]:
    """Yield the hunks that hold the new places, or else the calls that lead there."""
    before, after = found.before.name, found.after.name
    shown: set[tuple[str, str]] = set()
    stacks, new = _stacks(found)
    for stack in stacks:
        place = _hunk(stack, versions, before, after, new=new)
        if place is None or len(shown) == MOST:
            continue
        frame, hunk = place
        if (frame.file, hunk.head) in shown:
            continue
        shown.add((frame.file, hunk.head))
        yield TextLine(f"what it changes at {frame.file}:{frame.line}")
        yield BLANK
        yield from (TextLine(line, indent=4) for line in hunk.around(frame.line, new=new))
        yield BLANK
    if stacks and not shown:
        yield TextLine("Its difference touches neither these places nor the calls that lead there.")
    if changed := versions.changed(before, after):
        rest = len(changed) - MOST_NAMED
        named = ", ".join(changed[:MOST_NAMED])
        yield TextLine(f"{named}{f' and {rest:,} more' if rest > 0 else ''}", head="it changes  ")


def _stacks(found: BisectResult) -> tuple[list[tuple[Frame, ...]], bool]:
    """Return the new places of the test with the calls that lead there, or else those it lost."""
    for one, other, new in ((found.before, found.after, True), (found.after, found.before, False)):
        verdict, record = _judged(one, other)
        stacks = [
            (*(() if isinstance(item, Eager) else item.stack), item.where)
            for kind in ("break", "recompile", "graph", "eager")
            for change in reported(verdict, record)
            if change.change.kind == kind and not (change.is_entry or change.change.was)
            for item in change.items
        ]
        if stacks:
            return stacks, new
    return [], True


def _hunk(
    stack: tuple[Frame, ...], versions: Bisectable, before: str, after: str, *, new: bool
) -> tuple[Frame, Hunk] | None:
    """Return the hunk that holds a place, or else the nearest call that leads there."""
    for frame in reversed(stack):
        if not (frame.file and frame.line):
            continue
        for hunk in hunks(versions.difference(before, after, frame.file)):
            if hunk.touches(frame.line, new=new):
                return frame, hunk
    return None


# unified diffs, read and cut


@dataclass(frozen=True, slots=True)
class Hunk:
    """A hunk. ``old`` and ``new`` are the first line and the number of lines on each side."""

    head: str
    old: tuple[int, int]
    new: tuple[int, int]
    lines: tuple[str, ...]

    def touches(self, line: int, *, new: bool) -> bool:
        """Return whether it shows this line (from 1) of the new text, or of the old one."""
        first, count = self.new if new else self.old
        return first <= line < first + count

    def around(self, line: int, *, new: bool) -> Iterator[str]:
        """Yield the head, the lines around this one, and the number of lines left out."""
        at = self._index(line, new=new)
        start = max(0, min(at - LONGEST // 2, len(self.lines) - LONGEST))
        shown = self.lines[start : start + LONGEST]
        yield self.head
        if start:
            yield f"... {start:,} lines"
        yield from shown
        if rest := len(self.lines) - start - len(shown):
            yield f"... {rest:,} more lines"

    def _index(self, line: int, *, new: bool) -> int:
        """Return the index of the hunk's line that is this line of the new or the old text."""
        number = (self.new if new else self.old)[0] - 1
        for index, line_of in enumerate(self.lines):
            number += line_of[:1] not in ("-" if new else "+", "\\")
            if number == line:
                return index
        return 0


def hunks(text: str) -> Iterator[Hunk]:
    """Yield the hunks of the diff of one file."""
    for part in _START.split(text)[1:]:
        head, *rest = part.split("\n")
        if match := _HEAD.match(head):
            old, old_count, new, new_count = match.groups(default="1")
            body = tuple(takewhile(lambda line: line[:1] in _SIGNS, rest))
            yield Hunk(head, (int(old), int(old_count)), (int(new), int(new_count)), body)
