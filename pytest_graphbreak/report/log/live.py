"""The report of a script that was just observed, in the shape of a log's."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_graphbreak.model.layers import DESCRIPTIONS, JUDGED, LAYERS
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.report.findings import finding, home, homes_of, observed, section
from pytest_graphbreak.report.log import page, words
from pytest_graphbreak.report.log.text import row
from pytest_graphbreak.text import safe
from pytest_graphbreak.text.output import TextLine


def terminal(name: str, ended: str, record: Record) -> list[TextLine]:
    """The lines for a terminal. ``ended`` says how the script ended: ``exit 0``."""
    lines = [TextLine(f"{name}   {ended}")]
    lines += [row(label, text) for label, text in _counts(record)]
    lines += section("most frequent", [list(finding(item)) for item in observed(record)])
    layer = record.headline
    homes = [home(*item) for item in homes_of(record, layer)]
    lines += section(f"{layer} graphs come from", homes)
    return lines


def markdown(name: str, ended: str, record: Record) -> str:
    """The same, sorted by frequency, for an issue or a pull request."""
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
