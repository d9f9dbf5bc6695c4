"""What there is, where nothing was judged: graphs by cause, and reasons, most frequent first.

For reports that were made without the gate. The same lines are on the
terminal and, as they are, in a comment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from pytest_graphbreak.model.layers import CAUSES, DESCRIPTIONS, JUDGED, LAYERS
from pytest_graphbreak.model.record import CACHED, Record
from pytest_graphbreak.model.report import TestReport
from pytest_graphbreak.report.findings import (
    ReasonAtPlace,
    cached,
    cached_text,
    causes_text,
    decomposition,
    finding,
    observed,
    section,
)
from pytest_graphbreak.report.view import unjudged
from pytest_graphbreak.text.numbers import plural
from pytest_graphbreak.text.output import TextLine

MOST: Final = 10
"""Reasons that are shown with their places; the rest are counted."""


def lines(tests: Iterable[TestReport]) -> Iterator[TextLine]:
    """What the tests made that nothing judged; nothing where there is none of them."""
    records = [test.record for test in unjudged(tests)]
    if not records:
        return
    yield TextLine(f"not judged: what {plural(len(records), 'test')} made, by cause")
    for layer in reversed(LAYERS):
        made = any(record.graphs.get(layer) for record in records)
        if made or (layer in JUDGED and any(layer in record.layers for record in records)):
            yield TextLine(_counts(layer, records), indent=2, head=f"{layer:<8} ")
    found = _reasons(records)
    yield from section(
        "most frequent", [list(_reason(item, tests)) for item, tests in found[:MOST]]
    )
    if len(found) > MOST:
        words = f"... and {plural(len(found) - MOST, 'more reason')} in the JSON report"
        yield TextLine(words, indent=4)


def _counts(layer: str, records: Iterable[Record]) -> str:
    """``14 graphs = 6 entry + 8 after a break; 3 graph breaks, 1 recompile``."""
    graphs = recompiles = 0
    causes, places, left, loaded = Counter[str](), set(), set(), Counter[str]()
    for record in records:
        graphs += record.graphs.get(layer, 0)
        recompiles += record.recompiles.get(layer, 0)
        causes += decomposition(record, layer)
        loaded += cached(record, layer)
        places |= {item.where.key for item in record.breaks if item.layer == layer}
        left |= {item.where.key for item in record.eager if item.layer == layer}
    parts = causes_text({cause: causes[cause] for cause in CAUSES[layer] if causes[cause]})
    words = plural(graphs, "graph") + (f" = {parts}" if parts else "")
    words += cached_text({name: loaded[name] for name in CACHED if loaded[name]})
    if DESCRIPTIONS[layer].breaks:
        words += f"; {plural(len(places), 'graph break')}"
        words += f", {plural(recompiles, 'recompile')}"
    if left:
        words += f", {plural(len(left), 'place')} left to eager"
    return words


def _reasons(records: Iterable[Record]) -> list[tuple[ReasonAtPlace, int]]:
    """Each reason once for all tests, and in how many tests: what most tests share comes first."""
    found: dict[tuple[str, ...], tuple[ReasonAtPlace, int]] = {}
    for record in records:
        for item in observed(record):
            key = (item.kind, item.id or item.reason, *item.where.key)
            before, tests = found.get(key, (None, 0))
            if before is not None:
                item = replace(before, count=before.count + item.count)
            found[key] = (item, tests + 1)
    return sorted(found.values(), key=lambda pair: (-pair[1], -pair[0].count))


def _reason(item: ReasonAtPlace, tests: int) -> Iterator[TextLine]:
    first, *rest = finding(replace(item, seconds=None))
    yield replace(first, text=f"{first.text}   in {plural(tests, 'test')}")
    yield from rest
