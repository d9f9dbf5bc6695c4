"""Reports of logs and of scripts as Markdown, for an issue or a pull request.

Both begin with the counts, followed by what took most time or made most graphs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pytest_graphbreak.judging.finding import Finding
from pytest_graphbreak.judging.findings import findings_of_record
from pytest_graphbreak.logs.completeness import Completeness
from pytest_graphbreak.logs.reading import Reading
from pytest_graphbreak.model.layers import DESCRIPTIONS
from pytest_graphbreak.model.record import Frame, Record
from pytest_graphbreak.report import logs as log
from pytest_graphbreak.report.lines import KINDS, consequences, position
from pytest_graphbreak.report.scripts import counts
from pytest_graphbreak.report.unjudged import Homes, homes_of, order
from pytest_graphbreak.text import safe
from pytest_graphbreak.text.output import size
from pytest_graphbreak.text.safe import cut

MOST: Final = 200
"""The number of entries of one section; the JSON report has all."""


def of_logs(logs: Sequence[tuple[Reading, Completeness]]) -> str:
    """Return the report of all logs."""
    lines = ["# Graphs in logs", ""]
    for reading, completeness in logs:
        lines += _log(reading, completeness)
    return "\n".join(lines).rstrip() + "\n"


def of_script(name: str, ended: str, record: Record) -> str:
    """Return the report of a script. ``ended`` is how it ended: ``exit 0``."""
    lines = ["# Graphs of a script", "", f"## {safe.markdown(name)}", "", f"{_ours(ended)}.", ""]
    lines += _table(("layer", "counted"), counts(record))
    lines += _findings(findings_of_record(record))
    if not DESCRIPTIONS[record.headline].breaks:
        lines += _places(homes_of(record, record.headline))
    return "\n".join(lines).rstrip() + "\n"


def _log(reading: Reading, completeness: Completeness) -> Iterator[str]:
    head = f"{size(reading.size)}; {log.verdict(completeness)}."
    yield from (f"## {safe.markdown(reading.path)}", "", head, "")
    yield from _table(("layer", "counted"), log.counts(reading))
    yield from _gaps(completeness)
    if rows := list(log.origins(reading)):
        yield from ("### Where extra graphs come from", "")
        yield from _table(("origin", "graphs"), rows)
    yield from _findings(log.findings(reading))
    yield from _list("Failed graphs", [_failure(failure) for failure in log.failures(reading)])
    yield from _places(log.homes_in(reading))


def _gaps(completeness: Completeness) -> Iterator[str]:
    if completeness.is_complete:
        return
    yield from _list("What this log lacks", [f"- {_ours(gap)}" for gap in completeness.gaps])
    yield from ("To know all of it, run:", "")
    for command in completeness.commands:
        yield f"    {safe.console(command)}"
    yield ""


def _list(title: str, entries: Sequence[str]) -> Iterator[str]:
    """Yield the entries below a title; those over ``MOST`` are counted."""
    if entries:
        yield from (f"### {title}", "", *entries[:MOST], "", *_left_out(len(entries)))


def _markdown(text: str) -> str:
    """Return a text from the log or the program as Markdown, cut to a readable length."""
    return safe.markdown(cut(text))


def _findings(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield the findings, each with its place and how to fix it."""
    if not findings:
        return
    yield from (f"### {order(findings).capitalize()}", "")
    for number, finding in enumerate(findings[:MOST], 1):
        yield from _finding(number, finding)
    yield from _left_out(len(findings))


def _finding(number: int, finding: Finding) -> Iterator[str]:
    identity = f" {finding.id}" if finding.id else ""
    took = "" if finding.seconds is None else f", {finding.seconds:.1f} s"
    what = f"**{finding.count:,}x {KINDS.get(finding.kind, finding.kind)}{identity}**{took}"
    yield from (f"{number}. {what} {_markdown(finding.reason)}", "")
    yield from _frames(finding)
    raised = position(finding.raising_line) if finding.raising_line.file else ""
    fixes = (("Fix", words) for words in finding.fix)
    for label, text in (("Model", finding.owner), ("Raised in", raised), *fixes):
        if text:
            yield from (f"   {label}: {_markdown(text)}", "")


def _failure(failure: log.Failure) -> str:
    words = _markdown(log.failure_words(failure))
    return f"- **{failure.count:,}x** {words}\n  {_markdown(log.first(failure))}"


def _places(homes: Homes) -> Iterator[str]:
    """Yield the source lines that graphs come from."""
    for title, places in homes.items():
        yield from _list(safe.markdown(title), [_home(where, count) for where, count in places])


def _home(where: Frame, count: int) -> str:
    code = f" {_markdown(where.code)}" if where.code else ""
    return f"- **{count:,}x** {_markdown(position(where))}{code}"


def _frames(finding: Finding) -> Iterator[str]:
    """Yield the places and calls of a finding, and what follows, as one block of code."""
    frames = [(f"{place.words} ".lstrip(), place.where) for place in finding.places]
    frames += [("from ", frame) for frame in reversed(finding.calls)]
    for words, frame in frames:
        yield f"       {words}{safe.console(cut(position(frame)))}"
        if frame.code:
            yield f"           {safe.console(cut(frame.code))}"
    below = [f" {safe.console(cut(str(line)))}" for line in consequences(finding)]
    yield from below
    if frames or below:
        yield ""


def _table(head: tuple[str, str], rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield a table with two columns of this package's own words."""
    yield from (f"| {head[0]} | {head[1]} |", "| --- | --- |")
    yield from (f"| {label} | {_ours(text)} |" for label, text in rows)
    yield ""


def _ours(text: str) -> str:
    """Return a sentence of this package with underscores and stars escaped."""
    return re.sub(r"([\\`*_<>|\[\]])", r"\\\1", safe.console(text))


def _left_out(count: int) -> Iterator[str]:
    if count > MOST:
        yield from (f"{count - MOST:,} more are in the JSON report.", "")
