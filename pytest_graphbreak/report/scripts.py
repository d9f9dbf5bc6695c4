"""The report of a script for a terminal: the counts, then what took most time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import starmap

from pytest_graphbreak.config.typed import own
from pytest_graphbreak.judging.findings import findings_of_record
from pytest_graphbreak.model.layers import JUDGED, LAYERS
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.report.counts import layer_counts
from pytest_graphbreak.report.unjudged import found_lines, home_lines, homes_of
from pytest_graphbreak.text.output import BLANK, TextLine


def script_lines(name: str, ended: str, record: Record) -> list[TextLine]:
    """Return the lines of a script. ``ended`` is how it ended: ``exit 0``."""
    return [
        TextLine(f"{name}   {ended}"),
        *starmap(counted_row, counts(record)),
        *found_lines(findings_of_record(record)),
        *home_lines(homes_of(record, record.headline)),
        *fixing(name, record),
    ]


def counts(record: Record) -> Iterator[tuple[str, str]]:
    """Yield the counts of each layer, deepest first, and why a count cannot be trusted."""
    for layer in reversed(LAYERS):
        if layer in record.layers and (layer in JUDGED or record.graphs.get(layer)):
            yield layer, layer_counts(layer, [record])
    if not record.layers:
        yield "graphs", "none: neither torch nor JAX was used"
    for error in record.errors:
        yield "error", f"could not see: {error}"
    if record.note:
        yield "note", record.note


def counted_row(label: str, text: str) -> TextLine:
    """Return a line of the table at the top of a report."""
    return TextLine(text, indent=2, head=f"{label:<8} ")


def fixing(name: str, record: Record) -> Iterator[TextLine]:
    """Yield the commands that fix and reproduce what a script broke, if it did."""
    if name.endswith(".py") and any(item.layer == "dynamo" for item in record.breaks):
        yield BLANK
        for words, command in (("try a fix: ", "fix"), ("or make a script of it: ", "repro")):
            yield TextLine(words, indent=2, command=own().graphbreak(command, name))
