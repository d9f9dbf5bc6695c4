"""A log's report as markdown, sorted by compile time, or by frequency where none is known."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pytest_graphbreak.logs.completeness import Completeness
from pytest_graphbreak.logs.reading import Reading
from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.report.findings import KINDS, ReasonAtPlace, homes_of, order
from pytest_graphbreak.report.lines import position
from pytest_graphbreak.report.log import words
from pytest_graphbreak.report.log.words import failures, findings
from pytest_graphbreak.text import safe
from pytest_graphbreak.text.numbers import size

MOST = 200
"""Entries of one section; the JSON report has all."""


def render(logs: Sequence[tuple[Reading, Completeness]]) -> str:
    """The report of all logs."""
    lines = ["# Graphs in logs", ""]
    for reading, completeness in logs:
        lines += _log(reading, completeness)
    return "\n".join(lines).rstrip() + "\n"


def _log(reading: Reading, completeness: Completeness) -> Iterator[str]:
    yield f"## {safe.markdown(reading.path)}"
    yield ""
    yield f"{size(reading.size)}; {words.verdict(completeness)}."
    yield ""
    yield from table(("layer", "counted"), words.counts(reading))
    yield from _gaps(completeness)
    yield from _origins(reading)
    yield from most_frequent(findings(reading))
    yield from _failed(reading)
    yield from places(homes_of(reading.record, "tt"))


def _gaps(completeness: Completeness) -> Iterator[str]:
    if completeness.whole:
        return
    yield "### What this log lacks"
    yield ""
    for gap in completeness.gaps:
        yield f"- {ours(gap)}"
    yield ""
    yield "To know all of it, run:"
    yield ""
    for command in completeness.commands:
        yield f"    {safe.console(command)}"
    yield ""


def _origins(reading: Reading) -> Iterator[str]:
    rows = list(words.origins(reading))
    if rows:
        yield "### Where extra graphs come from"
        yield ""
        yield from table(("origin", "graphs"), rows)


def most_frequent(found: list[ReasonAtPlace]) -> Iterator[str]:
    """The reasons, each with its place and how to fix it."""
    if not found:
        return
    yield f"### {order(found).capitalize()}"
    yield ""
    for number, item in enumerate(found[:MOST], 1):
        name = f" {item.id}" if item.id else ""
        kind = KINDS.get(item.kind, item.kind)
        took = "" if item.seconds is None else f", {item.seconds:.1f} s"
        reason = safe.markdown(safe.cut(item.reason))
        yield f"{number}. **{item.count:,}x {kind}{name}**{took} {reason}"
        yield ""
        yield from _frames((item.where, *item.stack))
        for label, text in (
            ("Model", item.owner),
            ("Raised in", position(item.raised) if item.raised.file else ""),
            ("Fix", item.advice),
        ):
            if text:
                yield f"   {label}: {safe.markdown(safe.cut(text))}"
                yield ""
    yield from _left_out(len(found))


def _failed(reading: Reading) -> Iterator[str]:
    found = failures(reading)
    if not found:
        return
    yield "### Failed graphs"
    yield ""
    for item in found[:MOST]:
        yield f"- **{item.count:,}x** {safe.markdown(safe.cut(words.failure(item)))}"
        yield f"  {safe.markdown(safe.cut(words.first(item)))}"
    yield ""
    yield from _left_out(len(found))


def places(groups: Mapping[str, list[tuple[Frame, int]]]) -> Iterator[str]:
    """The source lines that graphs come from."""
    for title, found in groups.items():
        if not found:
            continue
        yield f"### {safe.markdown(title)}"
        yield ""
        for frame, count in found[:MOST]:
            code = f" {safe.markdown(safe.cut(frame.code))}" if frame.code else ""
            yield f"- **{count:,}x** {safe.markdown(safe.cut(position(frame)))}{code}"
        yield ""
        yield from _left_out(len(found))


def _frames(frames: Iterable[Frame]) -> Iterator[str]:
    """Places with their source lines, as one block of code, the innermost first."""
    shown = [frame for frame in frames if frame.file]
    for number, frame in enumerate(shown):
        above = "from " if number else ""
        yield f"       {above}{safe.console(safe.cut(position(frame)))}"
        if frame.code:
            yield f"           {safe.console(safe.cut(frame.code))}"
    if shown:
        yield ""


def table(head: tuple[str, str], rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Two columns of our own words."""
    yield f"| {head[0]} | {head[1]} |"
    yield "| --- | --- |"
    for label, text in rows:
        yield f"| {label} | {ours(text)} |"
    yield ""


def ours(text: str) -> str:
    """A sentence of ours: its underscores and stars are no structure."""
    return re.sub(r"([\\`*_<>|\[\]])", r"\\\1", safe.console(text))


def _left_out(count: int) -> Iterator[str]:
    if count > MOST:
        yield f"{count - MOST:,} more are in the JSON report."
        yield ""
