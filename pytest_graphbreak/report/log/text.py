"""The report of a log or a script for a terminal: plain lines, most important first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pytest_graphbreak.logs.completeness import Completeness
from pytest_graphbreak.logs.reading import Reading
from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.report.lines import position
from pytest_graphbreak.report.log import words
from pytest_graphbreak.report.log.words import LogFinding, failures, findings, homes
from pytest_graphbreak.text.safe import cut

MOST = 20
"""Entries of one section; the JSON report has all."""

_ABOVE = 2
"""Frames of a break's stack that are shown above its place."""


def render(reading: Reading, completeness: Completeness) -> str:
    """The whole report of one log."""
    return "\n".join(
        [
            *_head(reading, completeness),
            *section("most frequent", [list(finding(item)) for item in findings(reading)]),
            *section("failed", [list(lines) for lines in _failed(reading)]),
            *section("device graphs come from", [home(*item) for item in homes(reading)]),
            *_next(completeness),
        ]
    )


def _head(reading: Reading, completeness: Completeness) -> Iterator[str]:
    yield f"{reading.path}   {words.size(reading.size)}, {words.verdict(completeness)}"
    for label, text in words.counts(reading):
        yield f"  {label:<8} {text}"
    for label, text in words.origins(reading):
        yield f"  {'origin':<8} {label}: {text}"
    for doubt in completeness.gaps:
        yield f"  {'doubt':<8} {doubt}"


def section(title: str, entries: list[list[str]]) -> Iterator[str]:
    """A title and entries of some lines each; entries over ``MOST`` are counted."""
    if not entries:
        return
    yield ""
    yield f"  {title}"
    for entry in entries[:MOST]:
        yield from entry
    if len(entries) > MOST:
        yield f"    ... and {len(entries) - MOST:,} more"


def finding(item: LogFinding) -> Iterator[str]:
    """How often, what, where, and what mends it."""
    name = f"{item.id}  " if item.id else ""
    kind = words.KINDS.get(item.kind, item.kind)
    yield f"    {item.count:>4}x  {kind}  {name}{cut(item.reason)}".rstrip()
    yield from _at(item.where)
    for frame in item.stack[:_ABOVE]:
        yield from _at(frame, "from ")
    if item.advice:
        yield f"           try: {item.advice}"


def _failed(reading: Reading) -> Iterator[Iterable[str]]:
    for item in failures(reading):
        how = cut(words.failure(item))
        yield f"    {item.count:>4}x  {how}", f"           {cut(words.first(item))}"


def home(frame: Frame, count: int) -> list[str]:
    """A source line that graphs come from."""
    return [f"    {count:>4}x  {cut(position(frame))}", *_code(frame)]


def _at(frame: Frame, before: str = "") -> Iterator[str]:
    if frame.file:
        yield f"           {before}{cut(position(frame))}"
        yield from _code(frame)


def _code(frame: Frame) -> Iterator[str]:
    if frame.code:
        yield f"               {cut(frame.code)}"


def _next(completeness: Completeness) -> Iterator[str]:
    if not completeness.commands:
        return
    yield ""
    yield "  to know all of it, run"
    for command in completeness.commands:
        yield f"    {command}"
