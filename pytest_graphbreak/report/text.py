"""The words of a red test: plain lines, no colour.

Everything from outside (names, reasons, source lines) is made harmless here
(``safe``), since these texts go to terminals and CI logs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pytest_graphbreak.judging.verdict import Verdict
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.report.breakdown import cached, cached_text, causes_text, decomposition
from pytest_graphbreak.report.causes import (
    MOST_PLACES,
    break_lines,
    decomposed,
    eager_lines,
    nowhere,
    places,
    recompile_lines,
    shrunk,
)
from pytest_graphbreak.report.context import Context
from pytest_graphbreak.report.fallen import sort
from pytest_graphbreak.report.footer import footer
from pytest_graphbreak.report.headline import counts, headline, operations, totals
from pytest_graphbreak.report.repeats import series
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
    lines = [totals(record)]
    for layer in record.layers:
        causes = decomposition(record, layer)
        if causes:
            lines.append(f"  {layer}: {causes_text(causes)}{cached_text(cached(record, layer))}")
    found = sort(record, record.breaks, record.eager, record.recompile_list)
    for item, fallen in found.breaks[:MOST_PLACES]:
        lines += break_lines(" ", item, fallen)
    for again in series(found.recompiles)[:MOST_PLACES]:
        lines += recompile_lines(" ", again)
    for left in found.eager[:MOST_PLACES]:
        lines += eager_lines(" ", left)
    lines += [f"  {printable(error)}" for error in record.errors]
    lines += measured_with(record)
    return "\n".join(map(console, lines))


def block_failure(verdict: Verdict, record: Record) -> str:
    """The text of a block or a script that went over its cap: it has no baseline and no marker."""
    if verdict.name == "error":
        return "\n".join(_blocks(["graph budget: " + _first_error(record)], _errors(record)))
    return "\n".join(
        _blocks(
            [headline(verdict, record)],
            decomposed(verdict, record),
            places(verdict, record),
            operations(verdict, more=True),
        )
    )
