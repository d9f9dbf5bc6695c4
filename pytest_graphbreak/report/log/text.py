"""The report of a log or a script for a terminal: plain lines, most important first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pytest_graphbreak.logs.completeness import Completeness
from pytest_graphbreak.logs.reading import Reading
from pytest_graphbreak.report.findings import finding, home, section
from pytest_graphbreak.report.log import words
from pytest_graphbreak.report.log.words import failures, findings, homes
from pytest_graphbreak.text.safe import cut


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


def _failed(reading: Reading) -> Iterator[Iterable[str]]:
    for item in failures(reading):
        how = cut(words.failure(item))
        yield f"    {item.count:>4}x  {how}", f"           {cut(words.first(item))}"


def _next(completeness: Completeness) -> Iterator[str]:
    if not completeness.commands:
        return
    yield ""
    yield "  to know all of it, run"
    for command in completeness.commands:
        yield f"    {command}"
