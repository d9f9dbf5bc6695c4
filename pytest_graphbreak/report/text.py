"""The text of a failed test, line by line."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_graphbreak.config.typed import Typed
from pytest_graphbreak.judging.findings import findings_of_record
from pytest_graphbreak.judging.verdict import Verdict
from pytest_graphbreak.model.differences import STRICT
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.report.behind import with_changed
from pytest_graphbreak.report.causes import (
    MOST_PLACES,
    nowhere,
    places,
    shrunk,
)
from pytest_graphbreak.report.counts import made_of
from pytest_graphbreak.report.footer import (
    NO_LINES,
    Context,
    SourceLines,
    explain,
    footer,
    measured_with,
)
from pytest_graphbreak.report.headline import counts, first_line, headline, totals
from pytest_graphbreak.report.lines import lines
from pytest_graphbreak.text.output import BLANK, TextLine, blocks


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
    """Return new places, then what was lost because of them, then what is left."""
    findings = list(places(verdict, record, shown))
    text = [*nowhere, *findings, *shrunk(verdict, record)]
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
