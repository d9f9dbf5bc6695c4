"""The words of a red test: plain lines, no colour.

Everything from outside (names, reasons, source lines) is made harmless here
(``safe``), since these texts go to terminals and CI logs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pytest_graphbreak.config.typed import Typed
from pytest_graphbreak.judging.difference import observed
from pytest_graphbreak.judging.verdict import Verdict
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.report.breakdown import cached, cached_text, causes_text, decomposition
from pytest_graphbreak.report.causes import (
    MOST_PLACES,
    decomposed,
    lines,
    nowhere,
    places,
    shrunk,
)
from pytest_graphbreak.report.context import Context
from pytest_graphbreak.report.footer import explain, footer
from pytest_graphbreak.report.headline import counts, headline, operations, totals
from pytest_graphbreak.report.occurrences import occurrences
from pytest_graphbreak.report.settings import measured_with
from pytest_graphbreak.text.safe import console, printable


def failure(verdict: Verdict, record: Record, context: Context) -> str:
    """What a person sees first. Sections are separated by blank lines."""
    if verdict.name == "error":
        return "\n".join(_blocks(["graph budget: " + _first_error(record)], _errors(record)))
    return "\n".join(
        _blocks(
            [headline(verdict, record)],
            counts(verdict, record),
            operations(verdict, more=False),
            decomposed(verdict, record, context.fixtures),
            nowhere(verdict, record, context),
            shrunk(verdict, record),
            places(verdict, record),
            operations(verdict, more=True),
            footer(verdict, record, context),
        )
    )


def between(verdict: Verdict, record: Record) -> str:
    """What moved from one run of a test to another: a failure without its first and last lines."""
    return "\n".join(
        _blocks(
            counts(verdict, record),
            operations(verdict, more=False),
            decomposed(verdict, record),
            shrunk(verdict, record),
            places(verdict, record),
            operations(verdict, more=True),
        )
    )


def _blocks(*blocks: Iterable[str]) -> Iterator[str]:
    """Lines of all blocks that have any, a blank line between two."""
    first = True
    for block in blocks:
        lines = list(block)
        if lines and not first:
            yield ""
        first = first and not lines
        yield from map(console, lines)


def _first_error(record: Record) -> str:
    return f"could not see: {printable(record.errors[0])}"


def _errors(record: Record) -> Iterator[str]:
    for error in record.errors[1:]:
        yield f"  and {printable(error)}"
    yield "  A gate that cannot see does not pass, and nothing is recorded."


def describe(record: Record) -> str:
    """The record of a test that failed by itself, for the section below its traceback."""
    told = [totals(record)]
    for layer in record.layers:
        causes = decomposition(record, layer)
        if causes:
            told.append(f"  {layer}: {causes_text(causes)}{cached_text(cached(record, layer))}")
    found = occurrences(observed(record), record, lambda change: change.kind != "graph")
    for kind in ("break", "recompile", "eager"):
        for one in [one for one in found if one.change.kind == kind][:MOST_PLACES]:
            told += lines(one, " ")
    told += [f"  {printable(error)}" for error in record.errors]
    told += measured_with(record)
    return "\n".join(map(console, told))


def block_failure(verdict: Verdict, record: Record, typed: Typed) -> str:
    """The text of a block or a script that went over its cap: it has no baseline and no marker."""
    if verdict.name == "error":
        return "\n".join(_blocks(["graph budget: " + _first_error(record)], _errors(record)))
    return "\n".join(
        _blocks(
            [headline(verdict, record)],
            decomposed(verdict, record),
            places(verdict, record),
            operations(verdict, more=True),
            explain(verdict, record, typed, has_ids=True),
        )
    )
