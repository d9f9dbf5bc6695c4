"""The findings of a record: each reason at one place, and its lines on a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from msgspec import structs

from pytest_graphbreak import advice
from pytest_graphbreak.model.layer import GraphCause
from pytest_graphbreak.model.layers import BY_NAME, CAUSES, DESCRIPTIONS, JUDGED, LAYERS
from pytest_graphbreak.model.merging import total_seconds
from pytest_graphbreak.model.record import (
    CACHED,
    NOWHERE,
    Break,
    BreakReason,
    Eager,
    Frame,
    Graph,
    Recompile,
    Record,
)
from pytest_graphbreak.model.report import TestReport
from pytest_graphbreak.report.grouping import grouped, reason, without_recompiles
from pytest_graphbreak.report.lines import code, position
from pytest_graphbreak.report.view import unjudged
from pytest_graphbreak.text.output import BLANK, TextLine, plural
from pytest_graphbreak.text.safe import cut

MOST = 20
"""The number of entries of one section; the JSON report has all."""

_DEPTH = 11
"""Columns before the lines below the first line of a finding."""
_ABOVE = 2
"""The number of frames of a break's stack that are shown above its place."""

KINDS = {
    "break": "graph break",
    "recompile": "recompile",
    "eager": "left to eager",
    "other": "cut by torch_xla",
}
"""The names of kinds of findings; a cause of device graphs is called by its own name."""


@dataclass(frozen=True, slots=True)
class ReasonAtPlace:
    """One reason at one place. ``kind`` is its effect: break, recompile, eager, or a cause.

    ``stack`` are the frames above ``where``, the nearest first; ``also`` are further reasons of the
    line, ``advice`` what to write instead for each. ``origin`` is the line that sets what a guard
    is about; ``seconds``, ``owner`` and ``raised`` are those of a break.
    """

    kind: str
    reason: str
    count: int
    where: Frame
    id: str = ""
    stack: tuple[Frame, ...] = ()
    also: tuple[BreakReason, ...] = ()
    advice: tuple[str, ...] = ()
    origin: Frame = NOWHERE
    seconds: float | None = None
    owner: str = ""
    raised: Frame = NOWHERE


def observed(record: Record) -> list[ReasonAtPlace]:
    """Return what was observed live; device graphs that are whole FX graphs are not findings."""
    layer = DESCRIPTIONS[record.headline]
    if layer.breaks:  # breaks of this layer account for its graphs
        return ranked(record, ())
    graphs = (graph for graph in record.graph_list if graph.layer == layer.name)
    return ranked(record, (graph for graph in graphs if not layer.cause(graph.cause).is_plain))


def ranked(record: Record, cut: Iterable[Graph]) -> list[ReasonAtPlace]:
    """Return breaks, recompiles and eager code, with the device graphs that were ``cut``.

    They are sorted by the compile time of their graphs, in whole seconds, and then by frequency.
    """
    found = [_at_place("break", [item]) for item in record.breaks]
    found += [_at_place("recompile", same) for same in grouped(record.recompile_list)]
    found += [_at_place("eager", same) for same in grouped(record.eager)]
    causes: dict[str, list[Graph]] = {}
    for graph in without_recompiles(cut, record.recompile_list):
        causes.setdefault(graph.cause, []).append(graph)
    for cause, graphs in causes.items():
        found += [_at_place(cause, same) for same in grouped(graphs)]
    return sorted(found, key=lambda item: (-int(item.seconds or 0), -item.count))


def _at_place(kind: str, same: Sequence[Break | Eager | Recompile | Graph]) -> ReasonAtPlace:
    first, owners = same[0], {item.owner or "" for item in same}
    several = [item for item in same if not isinstance(item, Break)]
    found = ReasonAtPlace(
        kind,
        reason(several) if several else first.reason,
        sum(item.count if isinstance(item, (Break, Eager)) else 1 for item in same),
        first.where,
        advice=advice.shorts(first),
        seconds=total_seconds(same),
        owner=owners.pop() if len(owners) == 1 else "",
    )
    if isinstance(first, Recompile):
        return replace(found, origin=first.origin)
    if isinstance(first, Break):
        found = replace(found, also=first.also)
        stack = first.stack[:-1][::-1]
        return replace(found, id=first.id or "", stack=stack, raised=first.raised)
    return found


def models(record: Record, layer: str) -> dict[str, list[Graph]]:
    """Return the graphs of each model of a program; empty if there is only one model.

    A device graph belongs to the model of the FX graph that it was lowered from.
    """
    known = {graph.name: graph.owner for graph in record.graph_list if graph.owner}
    found: dict[str, list[Graph]] = {}
    for graph in record.graph_list:
        if graph.layer == layer:
            above = next((known[name] for name in graph.sources if name in known), None)
            found.setdefault(graph.owner or above or _NO_MODEL, []).append(graph)
    return found if len(found) > 1 else {}


_NO_MODEL = "no model known"


def homes_of(record: Record, layer: str) -> dict[str, list[tuple[Frame, int]]]:
    """Return the source lines that graphs of a layer come from, with their numbers of graphs.

    They are grouped by title; each model of a program has its own, with its graphs and their time.
    """
    graphs = [graph for graph in record.graph_list if graph.layer == layer]
    groups = {f"{layer} graphs come from": graphs}
    if by_model := models(record, layer):
        groups = {_of_model(layer, name, found): found for name, found in by_model.items()}
    return {
        title: Counter(graph.where for graph in found if graph.where.file).most_common()
        for title, found in groups.items()
    }


def _of_model(layer: str, name: str, graphs: Sequence[Graph]) -> str:
    """Return the title of a model: ``UNet: 5 dynamo graphs, 12.3 s``."""
    took = total_seconds(graphs)
    time = "" if took is None else f", {took:.1f} s"
    return f"{cut(name)}: {plural(len(graphs), f'{layer} graph')}{time}"


def order(found: Sequence[ReasonAtPlace]) -> str:
    """Return what findings are sorted by: time, if one took at least a second, else frequency."""
    return "most compile time" if found and (found[0].seconds or 0) >= 1 else "most frequent"


def section(title: str, entries: list[list[TextLine]], most: int = MOST) -> Iterator[TextLine]:
    """Yield a title and its entries of some lines each; entries over ``most`` are counted."""
    if not entries:
        return
    yield BLANK
    yield TextLine(title, indent=2)
    for entry in entries[:most]:
        yield from entry
    if len(entries) > most:
        yield TextLine(f"... and {len(entries) - most:,} more", indent=4)


def finding(item: ReasonAtPlace, named: bool = False) -> Iterator[TextLine]:
    """Yield how often, what, where, and how to fix it; with ``named``, the model as well."""
    name = f"{item.id}  " if item.id else ""
    kind = KINDS.get(item.kind, item.kind)
    yield counted(item.count, f"{kind}  {name}{cut(item.reason)}".rstrip(), item.seconds)
    for other in item.also:
        yield TextLine(f"and {other.id or ''}  {cut(other.reason)}", indent=_DEPTH)
    yield from _at(item.where)
    if item.owner and named:
        yield TextLine(f"in {item.owner}", indent=_DEPTH)
    for frame in item.stack[:_ABOVE]:
        yield from _at(frame, "from ")
    yield from _at(item.origin, "set in ")
    for words in item.advice:
        yield TextLine(words, "advice", _DEPTH, "fix: ")


def home(frame: Frame, count: int) -> list[TextLine]:
    """Return the lines for a source line that graphs come from."""
    return [counted(count, cut(position(frame))), *_code(frame)]


def counted(count: int, text: str, took: float | None = None) -> TextLine:
    """Return a line with a count, the time taken, and a text."""
    time = "" if took is None else f"{took:.1f} s  "
    return TextLine(text, indent=4, head=f"{count:>4}x  {time}")


def _at(frame: Frame, before: str = "") -> Iterator[TextLine]:
    if frame.file:
        yield TextLine(f"{before}{cut(position(frame))}", "call" if before else "place", _DEPTH)
        yield from _code(frame)


def _code(frame: Frame) -> list[TextLine]:
    return code(structs.replace(frame, code=cut(frame.code)), _DEPTH + 4)


def decomposition(layer: str, *records: Record) -> Counter[str]:
    """Return the number of graphs of a layer by cause, in the order of ``CAUSES``."""
    return _tally("cause", CAUSES[layer], layer, records)


def cached(layer: str, *records: Record) -> Counter[str]:
    """Return how many graphs were compiled, loaded or found, in the order of ``CACHED``."""
    return _tally("cached", CACHED, layer, records)


def _tally(name: str, order: Iterable[str], layer: str, records: Iterable[Record]) -> Counter[str]:
    graphs = (graph for record in records for graph in record.graph_list if graph.layer == layer)
    counted = Counter(getattr(graph, name) for graph in graphs)
    return Counter({one: counted[one] for one in order if counted[one]})


def cached_text(counted: Mapping[str, int]) -> str:
    """Return `` (compiled 3, loaded 1)`` to follow a number; empty if all were compiled."""
    if not set(counted) - {"compiled"}:
        return ""
    return f" ({', '.join(f'{name} {count:,}' for name, count in counted.items())})"


def cause_words(counted: Mapping[str, int]) -> list[str]:
    """Return each number of graphs with its cause: ``2 entries``, ``1 after a break``."""
    return [BY_NAME.get(cause, GraphCause(cause)).of(count) for cause, count in counted.items()]


def made_of(layer: str, *records: Record) -> str:
    """Return the causes of a layer's graphs and the origin of their code; empty if unknown."""
    parts = " + ".join(cause_words(decomposition(layer, *records)))
    return f"{parts}{cached_text(cached(layer, *records))}"


def layer_counts(
    layer: str, records: Sequence[Record], *, logged: bool = True, places: bool = False
) -> str:
    """Return the counts of a layer: ``14 graphs = 6 entries + 8 after a break; 3 graph breaks``.

    ``logged`` is False if a log has no Dynamo graphs. With ``places``, only distinct places count.
    """
    breaks = [one.where.key for record in records for one in record.breaks if one.layer == layer]
    eager = [one.where.key for record in records for one in record.eager if one.layer == layer]
    if places:
        breaks, eager = [*dict.fromkeys(breaks)], [*dict.fromkeys(eager)]
    graphs = sum(record.graphs.get(layer, 0) for record in records)
    text = plural(graphs, "graph") if logged else "graphs not logged"
    if parts := made_of(layer, *records):
        text += f" = {parts}"
    if DESCRIPTIONS[layer].breaks:
        recompiles = sum(record.recompiles.get(layer, 0) for record in records)
        text += f"; {plural(len(breaks), 'graph break')}, {plural(recompiles, 'recompile')}"
        if eager:
            text += f", {plural(len(eager), 'place' if places else 'function')} left to eager"
    return text


# Graphs by cause and reasons where nothing was judged, the most frequent first.
#
# This is for reports that were made without the gate. The same lines are shown on the terminal and
# in a comment.

MOST_REASONS: Final = 10
"""The number of reasons that are shown with their places; the rest are counted."""


def unjudged_lines(tests: Iterable[TestReport]) -> Iterator[TextLine]:
    """Yield the graphs and reasons of tests that were not judged, if there are any."""
    records = [test.record for test in unjudged(tests)]
    if not records:
        return
    yield TextLine(f"not judged: what {plural(len(records), 'test')} made, by cause")
    for layer in reversed(LAYERS):
        made = any(record.graphs.get(layer) for record in records)
        if made or (layer in JUDGED and any(layer in record.layers for record in records)):
            yield TextLine(layer_counts(layer, records, places=True), indent=2, head=f"{layer:<8} ")
    found = _reasons(records)
    yield from section(
        "most frequent", [list(_reason(item, tests)) for item, tests in found[:MOST_REASONS]]
    )
    if len(found) > MOST_REASONS:
        words = f"... and {plural(len(found) - MOST_REASONS, 'more reason')} in the JSON report"
        yield TextLine(words, indent=4)


def _reasons(records: Iterable[Record]) -> list[tuple[ReasonAtPlace, int]]:
    """Return each reason once with its number of tests, those of most tests first."""
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
