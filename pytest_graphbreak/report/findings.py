"""What a record reports: each reason at one place, and its lines on a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from msgspec import structs

from pytest_graphbreak import advice
from pytest_graphbreak.model.layer import GraphCause
from pytest_graphbreak.model.layers import BY_NAME, CAUSES, DESCRIPTIONS, JUDGED, LAYERS
from pytest_graphbreak.model.record import CACHED, NOWHERE, Frame, Graph, Recompile, Record
from pytest_graphbreak.model.report import TestReport
from pytest_graphbreak.report.lines import code, position
from pytest_graphbreak.report.view import unjudged
from pytest_graphbreak.text.output import BLANK, TextLine, plural
from pytest_graphbreak.text.safe import cut

MOST = 20
"""Entries of one section; the JSON report has all."""

_DEPTH = 11
"""Columns before what is said below the first line of a finding."""
_ABOVE = 2
"""Frames of a break's stack that are shown above its place."""

KINDS = {
    "break": "graph break",
    "recompile": "recompile",
    "eager": "left to eager",
    "other": "cut by torch_xla",
}
"""How a finding's kind is called; a cause of device graphs is called by its name."""


@dataclass(frozen=True, slots=True)
class ReasonAtPlace:
    """One reason at one place. ``kind`` is what it made: break, recompile, eager, or a cause.

    ``stack`` are the frames above ``where``, the nearest first; ``advice`` is
    one line, empty where there is none; ``seconds``, ``owner`` and ``raised`` are those of a break.
    """

    kind: str
    reason: str
    count: int
    where: Frame
    id: str = ""
    stack: tuple[Frame, ...] = ()
    advice: str = ""
    seconds: float | None = None
    owner: str = ""
    raised: Frame = NOWHERE


def observed(record: Record) -> list[ReasonAtPlace]:
    """What was observed live. Device graphs that are whole FX graphs are no finding."""
    layer = DESCRIPTIONS[record.headline]
    if layer.breaks:  # its breaks report its graphs
        return ranked(record, ())
    graphs = (graph for graph in record.graph_list if graph.layer == layer.name)
    return ranked(record, (graph for graph in graphs if not layer.cause(graph.cause).is_plain))


def ranked(record: Record, cut: Iterable[Graph]) -> list[ReasonAtPlace]:
    """Breaks, recompiles and what was left to eager, with the device graphs that were ``cut``.

    By the time that their graphs took to compile, in whole seconds, and then by frequency.
    """
    found = [
        ReasonAtPlace(
            "break",
            item.reason,
            item.count,
            item.where,
            item.id or "",
            item.stack[:-1][::-1],
            advice.short(item) or "",
            item.seconds,
            item.owner or "",
            item.raised,
        )
        for item in record.breaks
    ]
    found += _grouped(record.recompile_list, "recompile")
    found += [
        ReasonAtPlace(
            "eager",
            item.reason,
            item.count,
            item.where,
            advice=advice.short(item) or "",
            seconds=item.seconds,
            owner=item.owner or "",
        )
        for item in record.eager
    ]
    causes: dict[str, list[Graph]] = {}
    for graph in cut:
        causes.setdefault(graph.cause, []).append(graph)
    for cause, graphs in causes.items():
        found += _grouped(graphs, cause)
    return sorted(found, key=lambda item: (-int(item.seconds or 0), -item.count))


def _grouped(items: Iterable[Recompile | Graph], kind: str) -> list[ReasonAtPlace]:
    groups: dict[tuple[str, tuple[str, str, str]], list[Recompile | Graph]] = {}
    for item in items:
        groups.setdefault((item.reason, item.where.key), []).append(item)
    return [
        ReasonAtPlace(
            kind,
            same[0].reason,
            len(same),
            same[0].where,
            advice=advice.short(same[0]) or "",
            seconds=total(same),
            owner=_common(item.owner or "" for item in same),
        )
        for same in groups.values()
    ]


def total(items: Iterable[Recompile | Graph]) -> float | None:
    """The seconds of items together; None where none is known."""
    known = [item.seconds for item in items if item.seconds is not None]
    return sum(known) if known else None


def _common(owners: Iterable[str]) -> str:
    """The one model that all are of; empty where they are of several."""
    found = set(owners)
    return found.pop() if len(found) == 1 else ""


def models(record: Record, layer: str) -> dict[str, list[Graph]]:
    """The graphs of each model of a program; empty where all are of one.

    A device graph is of the model of the FX graph that it was lowered from.
    """
    known = {graph.name: graph.owner for graph in record.graph_list if graph.owner}
    found: dict[str, list[Graph]] = {}
    for graph in record.graph_list:
        if graph.layer == layer:
            above = next((known[name] for name in graph.sources if name in known), None)
            found.setdefault(graph.owner or above or _NO_MODEL, []).append(graph)
    return found if len(found) > 1 else {}


_NO_MODEL = "outside of a model"


def homes_of(record: Record, layer: str) -> dict[str, list[tuple[Frame, int]]]:
    """The source lines that the graphs of a layer come from, with the number of graphs of each.

    By a title; each model of a program has its own, with its graphs and their time.
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
    """``UNet: 5 dynamo graphs, 12.3 s``."""
    took = total(graphs)
    time = "" if took is None else f", {took:.1f} s"
    return f"{cut(name)}: {plural(len(graphs), f'{layer} graph')}{time}"


def order(found: Sequence[ReasonAtPlace]) -> str:
    """What findings are sorted by: time, where one took a second at least."""
    return "most compile time" if found and (found[0].seconds or 0) >= 1 else "most frequent"


def section(title: str, entries: list[list[TextLine]]) -> Iterator[TextLine]:
    """A title and entries of some lines each; entries over ``MOST`` are counted."""
    if not entries:
        return
    yield BLANK
    yield TextLine(title, indent=2)
    for entry in entries[:MOST]:
        yield from entry
    if len(entries) > MOST:
        yield TextLine(f"... and {len(entries) - MOST:,} more", indent=4)


def finding(item: ReasonAtPlace, named: bool = False) -> Iterator[TextLine]:
    """How often, what, where, and how to fix it; ``named``: in which model, too."""
    name = f"{item.id}  " if item.id else ""
    kind = KINDS.get(item.kind, item.kind)
    yield counted(item.count, f"{kind}  {name}{cut(item.reason)}".rstrip(), item.seconds)
    yield from _at(item.where)
    if item.owner and named:
        yield TextLine(f"in {item.owner}", indent=_DEPTH)
    for frame in item.stack[:_ABOVE]:
        yield from _at(frame, "from ")
    if item.advice:
        yield TextLine(item.advice, "advice", _DEPTH, "fix: ")


def home(frame: Frame, count: int) -> list[TextLine]:
    """A source line that graphs come from."""
    return [counted(count, cut(position(frame))), *_code(frame)]


def counted(count: int, text: str, took: float | None = None) -> TextLine:
    """How often something was, how long it took, and what it was."""
    time = "" if took is None else f"{took:.1f} s  "
    return TextLine(text, indent=4, head=f"{count:>4}x  {time}")


def _at(frame: Frame, before: str = "") -> Iterator[TextLine]:
    if frame.file:
        yield TextLine(f"{before}{cut(position(frame))}", "call" if before else "place", _DEPTH)
        yield from _code(frame)


def _code(frame: Frame) -> list[TextLine]:
    return code(structs.replace(frame, code=cut(frame.code)), _DEPTH + 4)


def decomposition(record: Record, layer: str) -> Counter[str]:
    """How many graphs of a layer each cause made, in the order of ``CAUSES``."""
    counted = Counter(graph.cause for graph in record.graph_list if graph.layer == layer)
    return Counter({cause: counted[cause] for cause in CAUSES[layer] if counted[cause]})


def cached(record: Record, layer: str) -> Counter[str]:
    """How many graphs of a layer were compiled, loaded and found, in the order of ``CACHED``."""
    counted = Counter(graph.cached for graph in record.graph_list if graph.layer == layer)
    return Counter({name: counted[name] for name in CACHED if counted[name]})


def cached_text(counted: Mapping[str, int]) -> str:
    """`` (compiled 3, loaded 1)``, behind a number of graphs; empty where all were compiled."""
    if not set(counted) - {"compiled"}:
        return ""
    return f" ({', '.join(f'{name} {count:,}' for name, count in counted.items())})"


def causes_text(counted: Mapping[str, int]) -> str:
    """What makes up a number of graphs: ``2 entries + 1 break``; empty where nothing is known."""
    return " + ".join(
        BY_NAME.get(cause, GraphCause(cause)).of(count) for cause, count in counted.items()
    )


def made_of(record: Record, layer: str) -> str:
    """What makes up the graphs of a layer, and where their code came from; empty where unknown."""
    causes = decomposition(record, layer)
    return f"{causes_text(causes)}{cached_text(cached(record, layer))}" if causes else ""


# What there is, where nothing was judged: graphs by cause, and reasons, most frequent first.
#
# For reports that were made without the gate. The same lines are on the terminal and, as they
# are, in a comment.

MOST_REASONS: Final = 10
"""Reasons that are shown with their places; the rest are counted."""


def unjudged_lines(tests: Iterable[TestReport]) -> Iterator[TextLine]:
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
        "most frequent", [list(_reason(item, tests)) for item, tests in found[:MOST_REASONS]]
    )
    if len(found) > MOST_REASONS:
        words = f"... and {plural(len(found) - MOST_REASONS, 'more reason')} in the JSON report"
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
