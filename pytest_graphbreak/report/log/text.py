"""The report of a log or a script for a terminal: plain lines, most important first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pytest_graphbreak.logs.completeness import Completeness
from pytest_graphbreak.logs.reading import Reading
from pytest_graphbreak.model.layers import DESCRIPTIONS, JUDGED, LAYERS
from pytest_graphbreak.model.record import Frame, Record
from pytest_graphbreak.report.findings import (
    ReasonAtPlace,
    counted,
    finding,
    home,
    homes_of,
    observed,
    order,
    section,
)
from pytest_graphbreak.report.log import page, words
from pytest_graphbreak.report.log.words import failures, findings
from pytest_graphbreak.text import safe
from pytest_graphbreak.text.numbers import size
from pytest_graphbreak.text.output import BLANK, TextLine
from pytest_graphbreak.text.safe import cut


def render(reading: Reading, completeness: Completeness) -> list[TextLine]:
    """The whole report of one log."""
    return [
        *_head(reading, completeness),
        *_found(findings(reading)),
        *section("failed", [list(lines) for lines in _failed(reading)]),
        *_homes(homes_of(reading.record, "tt")),
        *_next(completeness),
    ]


def _head(reading: Reading, completeness: Completeness) -> Iterator[TextLine]:
    yield TextLine(f"{reading.path}   {size(reading.size)}, {words.verdict(completeness)}")
    for label, text in words.counts(reading):
        yield row(label, text)
    for label, text in words.origins(reading):
        yield row("origin", f"{label}: {text}")
    for gap in completeness.gaps:
        yield row("gap", gap)


def row(label: str, text: str) -> TextLine:
    """A line of the table at the top of a report."""
    return TextLine(text, indent=2, head=f"{label:<8} ")


def _failed(reading: Reading) -> Iterator[Iterable[TextLine]]:
    for item in failures(reading):
        how = cut(words.failure(item))
        yield counted(item.count, how), TextLine(cut(words.first(item)), indent=11)


def _next(completeness: Completeness) -> Iterator[TextLine]:
    if not completeness.commands:
        return
    yield BLANK
    yield TextLine("to know all of it, run", indent=2)
    for command in completeness.commands:
        yield TextLine(indent=4, kind="command", command=command)


def terminal(name: str, ended: str, record: Record) -> list[TextLine]:
    """The lines for a terminal. ``ended`` says how the script ended: ``exit 0``."""
    lines = [TextLine(f"{name}   {ended}")]
    lines += [row(label, text) for label, text in _counts(record)]
    lines += _found(observed(record))
    lines += _homes(homes_of(record, record.headline))
    return lines


def _found(found: Sequence[ReasonAtPlace]) -> Iterator[TextLine]:
    """The reasons, most important first; with their models, where there are several."""
    named = len({item.owner for item in found}) > 1
    yield from section(order(found), [list(finding(item, named)) for item in found])


def _homes(groups: Mapping[str, list[tuple[Frame, int]]]) -> Iterator[TextLine]:
    for title, found in groups.items():
        yield from section(title, [home(*item) for item in found])


def markdown(name: str, ended: str, record: Record) -> str:
    """The same, sorted alike, for an issue or a pull request."""
    lines = [
        "# Graphs of a script",
        "",
        f"## {safe.markdown(name)}",
        "",
        f"{page.ours(ended)}.",
        "",
        *page.table(("layer", "counted"), _counts(record)),
        *page.most_frequent(observed(record)),
    ]
    if not DESCRIPTIONS[record.headline].breaks:
        lines += page.places(homes_of(record, record.headline))
    return "\n".join(lines).rstrip() + "\n"


def _counts(record: Record) -> Iterator[tuple[str, str]]:
    """What was counted on each layer, deepest first, and what keeps a count from being trusted."""
    for layer in reversed(LAYERS):
        if layer in record.layers and (layer in JUDGED or record.graphs.get(layer)):
            yield layer, words.of_layer(record, layer)
    if not record.layers:
        yield "graphs", "none: neither torch nor JAX was used"
    for error in record.errors:
        yield "error", f"could not see: {error}"
    if record.note:
        yield "note", record.note
