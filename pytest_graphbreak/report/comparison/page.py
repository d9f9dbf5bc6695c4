"""A comparison as one page: first the causes, then each test with both sides.

This module makes the data (``page_data``); ``compare.js`` shows it. Words that the terminal also
shows are made here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pytest_graphbreak.judging.attribution import Attribution, Key, PlacedCause
from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.model.record import NOWHERE
from pytest_graphbreak.report.comparison import words
from pytest_graphbreak.report.frame import CheckoutSources, fill
from pytest_graphbreak.report.html import MOST_GRAPHS, Shared, cause_kinds
from pytest_graphbreak.report.lines import position
from pytest_graphbreak.runs.comparison import CauseChange, Comparison, Pair, PossibleMove
from pytest_graphbreak.runs.union import SeenTest
from pytest_graphbreak.text.output import plural
from pytest_graphbreak.text.safe import cut, printable

NAMES: Final = 200
"""The number of tests that are named below one cause."""


def render(found: Comparison) -> str:
    """Return the page."""
    return fill("compare", "Graphs before and after", page_data(found))


def page_data(found: Comparison) -> Plain:
    """Return everything that the page shows, in the same order."""
    shared = Shared(CheckoutSources(None))
    return {
        **cause_kinds(),
        "headline": words.headline(found),
        "totals": list(words.totals(found.pairs)),
        "sides": [
            [word, printable(words.side(side)), [printable(text) for text in side.problems]]
            for word, side in (("before", found.before), ("after", found.after))
        ],
        "sections": [
            {
                "title": section.title,
                "changes": [_change(change, found, shared) for change in section.changes],
            }
            for section in words.sections(found)
        ],
        "moved": [_moved(pair, found, shared) for pair in found.moved],
        "tests": [_test(pair, shared) for pair in found.pairs if pair.moved],
        "asides": [
            [f"{title}: {plural(len(items), unit)}", [printable(item) for item in items]]
            for title, unit, items in words.asides(found)
            if items
        ],
        "frames": shared.frames,
        "texts": shared.texts,
    }


def _change(change: CauseChange, found: Comparison, shared: Shared) -> Plain:
    tests = [
        "   ".join((printable(effect.nodeid), *words.growth(effect.graphs)))
        for effect in change.effects[:NAMES]
    ]
    tried = words.tried(change)
    return {
        "sign": words.sign(change),
        "kind": printable(change.cause.id or words.KINDS.get(change.kind, change.kind)),
        "name": shared.text(words.name(change)),
        "was": shared.text(words.was(change)),
        "amount": words.amount(change),
        "growth": change.growth,
        "at": shared.frame(change.where if change.where.file else NOWHERE),
        "stack": [shared.frame(frame) for frame in change.cause.stack[:-1]],
        "owner": printable(words.owner(change, found)),
        "try": shared.text(tried or ""),
        "tests": tests,
        "more": len(change.effects) - len(tests),
        "with": [
            f"{words.sign(item)} {printable(words.KINDS.get(item.kind, item.kind))}   "
            f"{printable(position(item.where))}   {words.amount(item)}"
            for item in change.with_it.values()
        ],
    }


def _moved(pair: PossibleMove, found: Comparison, shared: Shared) -> Plain:
    return {
        "why": words.unsure(pair),
        "before": _change(pair.before, found, shared),
        "after": _change(pair.after, found, shared),
    }


# one test


def _test(pair: Pair, shared: Shared) -> Plain:
    books = (
        Attribution(pair.before.test.record, pair.layers),
        Attribution(pair.after.test.record, pair.layers),
    )
    before, after = books
    keys = list(dict.fromkeys((*before.causes, *after.causes)))
    rows = {key: number for number, key in enumerate(keys)}
    return {
        "id": printable(pair.nodeid),
        "profile": printable(pair.profile),
        "growth": pair.growth,
        "lost": bool(pair.emptied),
        "layers": [
            {
                "name": layer,
                **dict(zip(("was", "now"), pair.graphs.get(layer, (0, 0)), strict=True)),
                "ops": list(pair.ops.get(layer, (None, None))),
            }
            for layer in pair.layers
        ],
        "ran": [
            [f"{layer} {what}", before, after]
            for what, counts in (("executions", pair.executions), ("reads", pair.reads))
            for layer, (before, after) in counts.items()
            if before or after
        ],
        "strips": [
            {layer: _strip(seen, layer, one, rows) for layer in pair.layers}
            for seen, one in zip((pair.before, pair.after), books, strict=True)
        ],
        "rows": [_row(before.causes.get(key), after.causes.get(key), shared) for key in keys],
    }


def _strip(seen: SeenTest, layer: str, one: Attribution, rows: Mapping[Key, int]) -> list[Plain]:
    """Return the graphs of one side, each with the row of its cause."""
    graphs = [graph for graph in seen.test.record.graph_list if graph.layer == layer]
    return [
        {
            "name": printable(graph.name),
            "cause": printable(graph.cause),
            "ops": graph.ops,
            "row": rows.get(one.names.get((layer, graph.name), ())),
        }
        for graph in graphs[:MOST_GRAPHS]
    ]


def _row(before: PlacedCause | None, after: PlacedCause | None, shared: Shared) -> Plain:
    """Return a cause of a test, with its names and counts on both sides."""
    shown = after or before
    assert shown is not None
    return {
        "kind": printable(words.KINDS.get(shown.kind, shown.kind)),
        "at": shared.frame(shown.where if shown.where.file else NOWHERE),
        "before": _cell(before, shared),
        "after": _cell(after, shared),
    }


def _cell(cause: PlacedCause | None, shared: Shared) -> Plain | None:
    """Return id, reason, frequency and graphs by layer, or None if the side lacks the cause."""
    if cause is None:
        return None
    graphs = ", ".join(f"{layer} {count}" for layer, count in cause.graphs.items() if count)
    return {
        "id": printable(cause.id or ""),
        "reason": shared.text(cut(cause.reason)),
        "times": cause.times,
        "graphs": graphs,
    }
