"""Why a test is red: what its graphs are made of, and each cause with its place and advice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pytest_graphbreak import advice
from pytest_graphbreak.judging.verdict import Verdict
from pytest_graphbreak.model.budget import BaselinePlace, Cause
from pytest_graphbreak.model.layers import DESCRIPTIONS, LAYERS
from pytest_graphbreak.model.record import NOWHERE, Break, Eager, Frame, Graph, Record
from pytest_graphbreak.report import regressions
from pytest_graphbreak.report.breakdown import cached, cached_text, causes_text, decomposition
from pytest_graphbreak.report.context import Context
from pytest_graphbreak.report.fallen import Fallen
from pytest_graphbreak.report.lines import at, calls, meanwhile, of_graph, place, process, to_try
from pytest_graphbreak.report.repeats import Repeats, series
from pytest_graphbreak.text.numbers import noun
from pytest_graphbreak.text.safe import printable

MOST_PLACES = 12
"""Places that a failure shows in full; what is left out is counted."""
MOST_FUNCTIONS = 8
"""Functions that are named where operations are lost."""
MOST_NOWHERE = 3
"""Functions that are named where nothing is compiled any more: those around all others."""


def decomposed(
    verdict: Verdict, record: Record, fixtures: Mapping[str, int] | None = None
) -> Iterator[str]:
    """``  4 xla graphs = 2 fx + 1 split + 1 access`` for each layer that grew or is new."""
    moved = {step.layer for step in (*verdict.over, *verdict.lost)}
    for layer in record.layers:
        if verdict.name != "new" and layer not in moved:
            continue
        causes = decomposition(record, layer)
        count = record.graphs.get(layer, 0)
        if count and causes:
            loaded = cached_text(cached(record, layer))
            yield f"  {count} {layer} {noun(count, 'graph')} = {causes_text(causes)}{loaded}"
            if own := (fixtures or {}).get(layer):
                yield f"    {own} of {'it' if count == 1 else 'them'} in the test's fixtures"


def nowhere(verdict: Verdict, record: Record, context: Context) -> Iterator[str]:
    """Where nothing is compiled any more and nothing broke: what to look for, and where."""
    if not verdict.emptied or record.breaks or record.eager or any(record.graphs.values()):
        return
    if record.attempted:
        number = f"{record.attempted} {noun(record.attempted, 'function')}"
        yield f"  - {number} looked at, and no tensor operation found to compile"
        words = "compile the function that computes, and not one that only calls or returns"
    else:
        yield "  - nothing was compiled"
        words = _look_for(verdict)
    yield from _notes(record)
    yield from at(context.test)
    yield from _left(verdict, MOST_NOWHERE)
    yield from to_try(words)


def shrunk(verdict: Verdict, record: Record) -> Iterator[str]:
    """Where fewer operations are captured in as many graphs: what each of them still has."""
    lost = {step.layer: step for step in verdict.lost if step.what == "ops"}
    if not lost:
        return
    layer, step = next(iter(lost.items()))
    graphs = [graph for graph in record.graph_list if graph.layer == layer]
    for graph in graphs[:MOST_PLACES]:
        number = f"{graph.ops or 0} of {step.allowed} operations left"
        if len(graphs) > 1:
            number = f"{graph.ops or 0} of the {step.measured} operations that are left"
        yield f"  - {layer} graph {printable(graph.name)} has {number}{process(graph)}"
        yield from at(graph.where)
    if len(graphs) > MOST_PLACES:
        yield f"  ... and {len(graphs) - MOST_PLACES} more graphs (the JSON report has them all)"
    yield from _left(verdict)
    yield from _notes(record)
    if not verdict.added and not verdict.left:
        words = "what it called before runs without the compiler now"
        yield from to_try(f"{words}: {_look_for(verdict)}")


def _look_for(verdict: Verdict) -> str:
    """What there may be, by the first layer that lost what it had."""
    layer = next((step.layer for step in verdict.lost if step.layer), LAYERS[0])
    return f"look for {DESCRIPTIONS[layer].look_for}"


def _notes(record: Record) -> Iterator[str]:
    """What the record notes may be why less was compiled: what a cache had, what is turned off."""
    yield from (f"      {printable(note)}" for note in record.notes)


def _left(verdict: Verdict, most: int = MOST_FUNCTIONS) -> Iterator[str]:
    """The functions that are no longer reached; where all are, those that hold less."""
    none = [item for item in verdict.functions if not item.measured]
    for item in (none or verdict.functions)[:most]:
        file, _, function = item.name.partition("::")
        where = place(Frame(file, function))
        if none:
            yield f"  - {where} is no longer reached ({_operations(item.was)})"
        else:
            yield f"  - {where} holds {item.measured} of {_operations(item.was)}"


def _operations(count: int) -> str:
    return f"{count} {noun(count, 'operation')}"


def places(verdict: Verdict, record: Record) -> Iterator[str]:
    """Added, gone and known, each with its place; the last lines of a long list are counted."""
    found = regressions.found(verdict, record)
    times = regressions.times(verdict, record)
    shown: list[list[str]] = [
        *(break_lines("+", *pair) for pair in found.breaks),
        *(graph_lines("+", item, times[regressions.kind(item)]) for item in found.graphs),
        *(_entry(*entry) for entry in regressions.entries(verdict, record)),
        *(recompile_lines("+", item) for item in series(found.recompiles)),
        *(eager_lines("+", item) for item in found.eager),
        *(_gone_break("-", item) for item in (*verdict.gone, *verdict.returned)),
        *(_gone(item) for item in regressions.gone(verdict)),
        *(_reworded(old, new) for old, new in verdict.reworded),
    ]
    for lines in shown[:MOST_PLACES]:
        yield from lines
    if len(shown) > MOST_PLACES:
        yield f"  ... and {len(shown) - MOST_PLACES} more places (the JSON report has them all)"
    if verdict.matched:
        ids = ", ".join(dict.fromkeys(item.id or "break" for item in verdict.matched))
        number = len(verdict.matched)
        yield f"  = {ids}   {number} known {noun(number, 'break')} unchanged"
    if parts := [
        f"{moved.matched} of {moved.measured} {moved.layer} {noun(moved.measured, 'graph')} known"
        for moved in regressions.partly_matched(verdict)
    ]:
        yield f"  = {', '.join(parts)}"


def break_lines(sign: str, item: Break, fallen: Fallen) -> list[str]:
    times = f"   x{item.count}" if item.count > 1 else ""
    name = f"{item.id}  " if item.id else ""
    return [
        f"  {sign} {name}{printable(item.reason)}{times}",
        *meanwhile(item, first=item.count > 1),
        *at(item.where),
        *calls(item.stack[:-1]),
        *to_try(advice.short(item)),
        *_with_it(fallen),
    ]


def _with_it(fallen: Fallen) -> Iterator[str]:
    """What fell with a break, a line for each and no advice: it comes back with it."""
    repeats = series(fallen.recompiles)
    if not (fallen.breaks or fallen.eager or fallen.graphs or repeats):
        return
    yield "      and with it, until it is mended:"
    for item in fallen.breaks:
        name = f"{item.id}  " if item.id else ""
        yield f"        {place(item.where)} breaks, too: {name}{printable(item.reason)}"
    breaking = {item.where.key for item in fallen.breaks}
    for left in fallen.eager:
        if left.where.key not in breaking:
            yield f"        {place(left.where)} runs without the compiler"
    for where, numbers, why in _recompiled(repeats):
        yield f"        {place(where)} is compiled again ({numbers}){why}"
    for graph in fallen.graphs:
        yield f"        {place(graph.where)} is a graph more: {printable(graph.reason)}"


def _recompiled(repeats: Sequence[Repeats]) -> Iterator[tuple[Frame, str, str]]:
    """Each function that is compiled again, how often, and why where it is for one reason."""
    found: dict[tuple[str, ...], list[Repeats]] = {}
    called: dict[tuple[str, ...], tuple[Frame, int]] = {}
    for one in repeats:
        found.setdefault(one.first.where.key[:2], []).append(one)
        for where, graphs in one.followers:
            before = called.get(where.key[:2], (where, 0))
            called[where.key[:2]] = (before[0], before[1] + len(graphs))
    for key, same in found.items():
        times = sum(one.times for one in same) + called.pop(key, (NOWHERE, 0))[1]
        first = same[0]
        numbers = first.graphs if times == first.times else f"{times} times"
        yield first.first.where, numbers, f": {printable(first.reason)}" if len(same) == 1 else ""
    for where, times in called.values():
        yield where, "once" if times == 1 else f"{times} times", ""


def graph_lines(sign: str, item: Graph, count: int = 1) -> list[str]:
    times = f"   x{count}" if count > 1 else ""
    reason = f"   {printable(item.reason)}" if item.reason else ""
    source = f"   (from dynamo {', '.join(item.sources)})" if item.sources else ""
    return [
        f"  {sign} {item.cause}{reason}{source}{process(item)}{times}",
        *of_graph(item, count),
        *at(item.where),
        *calls(item.stack[:-1]),
        *to_try(advice.short(item)),
    ]


def _entry(sign: str, item: Graph, count: int) -> list[str]:
    times = f"   x{count}" if count > 1 else ""
    first = f"  {sign} {item.cause}{times}{process(item)}"
    return [first, *of_graph(item, count), *at(item.where)]


def recompile_word(layer: str) -> str:
    """What a layer calls it that code is compiled again."""
    causes = DESCRIPTIONS[layer].causes
    return next((cause.name for cause in causes if cause.kind == "again"), "recompile")


def recompile_lines(sign: str, item: Repeats) -> list[str]:
    word = recompile_word(item.first.layer)
    return [
        f"  {sign} {word} {printable(item.graphs)}   {printable(item.reason)}",
        *meanwhile(item.first, first=item.is_loop),
        *at(item.first.where),
        *calls(item.first.stack),
        *to_try(advice.short(item.first)),
        *_followers(item),
    ]


def _followers(item: Repeats) -> Iterator[str]:
    """What is compiled again with a function, since it calls it."""
    if item.followers:
        yield f"      and recompiled with its caller, since {printable(item.since)}:"
    for where, graphs in item.followers[:MOST_FUNCTIONS]:
        names = ", ".join((*graphs[:3], "...") if graphs[3:] else graphs)
        yield f"        {place(where)}   {printable(names)}"
    if len(item.followers) > MOST_FUNCTIONS:
        yield f"        ... and {len(item.followers) - MOST_FUNCTIONS} more functions"


def eager_lines(sign: str, item: Eager) -> list[str]:
    times = f"   x{item.count}" if item.count > 1 else ""
    return [
        f"  {sign} eager   {printable(item.reason)}{times}",
        *meanwhile(item, first=item.count > 1),
        *at(item.where),
        *to_try(advice.short(item)),
    ]


def _gone_break(sign: str, item: BaselinePlace) -> list[str]:
    name = f"{item.id}  " if item.id else ""
    lines = [f"  {sign} {name}{printable(item.reason or 'break')}   gone"]
    file, _, function = item.where.partition("::")
    lines += at(Frame(file, function, 0, item.code))
    return lines


def _gone(item: Cause) -> list[str]:
    times = f"   x{item.count}" if item.count > 1 else ""
    file, _, function = item.where.partition("::")
    return [f"  - {item.cause}{times}   gone", *at(Frame(file, function, 0, item.code))]


def _reworded(old: BaselinePlace, new: Break) -> list[str]:
    was = printable(old.id or old.reason or "")
    return [f"  ~ {was} is now {new.id or ''} {printable(new.reason)}".rstrip(), *at(new.where)]
