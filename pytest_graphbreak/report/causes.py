"""The explanation of a failed test: its graphs, and each cause with its place and advice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from pytest_graphbreak import advice
from pytest_graphbreak.judging.repeats import Repeats
from pytest_graphbreak.judging.verdict import Verdict
from pytest_graphbreak.model.budget import PLACES_LAYER
from pytest_graphbreak.model.differences import Difference
from pytest_graphbreak.model.layers import DESCRIPTIONS, LAYERS
from pytest_graphbreak.model.record import (
    NOWHERE,
    Break,
    Eager,
    Frame,
    Graph,
    LineRuns,
    Recompile,
    Record,
)
from pytest_graphbreak.report.footer import NO_LINES, Context, SourceLines
from pytest_graphbreak.report.lines import (
    at,
    calls,
    code,
    detail,
    meanwhile,
    of_graph,
    position,
    process,
    to_try,
)
from pytest_graphbreak.report.root_causes import Occurrence, reported
from pytest_graphbreak.report.runs import compiled_still, run_lines
from pytest_graphbreak.text.output import TextLine, noun, plural, signed

MOST_PLACES = 12
"""The number of places that a failure shows in full; the rest are counted."""
MOST_FUNCTIONS = 8
"""The number of functions that are named with one that is compiled again."""


def nowhere(verdict: Verdict, record: Record, context: Context) -> Iterator[TextLine]:
    """Yield what to look for if a layer compiles nothing any more and nothing broke."""
    if not verdict.emptied or record.breaks or record.eager:
        return
    left = any(record.graphs.values())
    if record.frames.attempted:
        number = f"{record.frames.attempted} {noun(record.frames.attempted, 'function')}"
        yield _lost(f"{number} looked at, and no tensor operation found to compile")
        words = "compile the function that computes, and not one that only calls or returns"
    else:
        layer = next((one.layer for one in verdict.lost if not one.after), "")
        yield _lost(f"nothing was compiled on {layer}" if left else "nothing was compiled")
        words = _look_for(verdict)
    yield from _notes(record)
    yield from at(context.test)
    yield from to_try(words)


def shrunk(verdict: Verdict, record: Record) -> Iterator[TextLine]:
    """Yield what each graph still contains if as many graphs compile less of the program."""
    if not is_less(verdict):
        return
    for step in verdict.lost:
        if step.kind == "work" and step.layer and not _shrank(verdict, step.layer):
            yield from compiled_still(record, step.layer, MOST_PLACES)
            yield from to_try(f"look for {DESCRIPTIONS[step.layer].look_for}")
    ops = next((step for step in verdict.lost if step.kind == "ops"), None)
    if ops is None:
        return
    graphs = [graph for graph in record.graph_list if graph.layer == ops.layer]
    for graph in graphs[:MOST_PLACES]:
        number = f"{graph.ops or 0} of {ops.before} operations left"
        if len(graphs) > 1:
            number = f"{graph.ops or 0} of the {ops.after} operations that are left"
        yield _lost(f"{ops.layer} graph {graph.name} has {number}{process(graph)}")
        yield from at(graph.where)
    if len(graphs) > MOST_PLACES:
        yield _rest(len(graphs) - MOST_PLACES, "more graph")
    yield from _notes(record)
    if not _is_explained(verdict):
        words = "code that was compiled before may run without the compiler now"
        yield from to_try(f"{words}: {_look_for(verdict)}")


def is_less(verdict: Verdict) -> bool:
    """Return whether less is compiled, or runs compiled, and no new place explains it."""
    if any(step.kind == "ops" for step in verdict.lost):
        return not (verdict.over and _is_explained(verdict))
    return any(step.kind in ("work", "execution") for step in verdict.lost)


def _is_explained(verdict: Verdict) -> bool:
    return any(one.kind in ("break", "eager") and one.is_new for one in verdict.changes)


def _shrank(verdict: Verdict, layer: str) -> bool:
    """Return whether a layer captures less, which already explains why less of it runs."""
    return any((step.kind, step.layer) == ("ops", layer) for step in verdict.lost)


def _look_for(verdict: Verdict) -> str:
    """Return what to look for, according to the first layer that lost something."""
    layer = next((step.layer for step in verdict.lost if step.layer), LAYERS[0])
    return f"look for {DESCRIPTIONS[layer].look_for}"


def _notes(record: Record) -> Iterator[TextLine]:
    """Yield notes that may explain why less was compiled: a cache, or a setting."""
    yield from map(detail, record.notes)


def _lost(text: str) -> TextLine:
    return TextLine(text, "lost", 2, "- ")


def _rest(count: int, what: str) -> TextLine:
    return TextLine(f"... and {plural(count, what)} (the JSON report has them all)", indent=2)


def places(verdict: Verdict, record: Record, shown: SourceLines = NO_LINES) -> Iterator[TextLine]:
    """Yield new and removed places; the rest of a long list is counted.

    Each advice is given only once.
    """
    found = reported(verdict, record)
    advised = set[str]()
    for line in chain.from_iterable(lines(one, shown=shown) for one in found[:MOST_PLACES]):
        if line.kind != "advice" or line.text not in advised:
            yield line
        advised |= {line.text} if line.kind == "advice" else set()
    if len(found) > MOST_PLACES:
        yield _rest(len(found) - MOST_PLACES, "more place")


def lines(one: Occurrence, sign: str = "+", shown: SourceLines = NO_LINES) -> list[TextLine]:
    """Return the lines for one place: what changed, where, what led there, what to try."""
    if one.change.was:
        return _reworded(one)
    match one.items:
        case ():
            return _gone(one, shown)
        case (Break() as item, *_):
            return break_lines(sign, item, one)
        case (Eager() as item, *_):
            return eager_lines(sign, item)
        case (LineRuns() as item, *_):
            return run_lines(sign, item, one.change.growth, read=one.change.kind == "read")
        case (Graph() as item, *_):
            if one.change.kind == "compiled":
                return compiled_lines(sign, item, one.change.after)
            if one.is_entry:
                return _entry("*" if one.change.unsure else sign, item, one.change.growth)
            return graph_lines(sign, item, one.change.growth)
    return recompile_lines(sign, one)


def break_lines(sign: str, item: Break, one: Occurrence | None = None) -> list[TextLine]:
    """Return the lines of a break: its place, or that of a disabled function, and its calls."""
    name = f"{item.id}  " if item.id else ""
    return [
        signed(sign, item.reason, name),
        *meanwhile(item, first=item.count > 1),
        *(detail(f"and {other.id or ''}  {other.reason}") for other in item.also),
        *at(item.disabled if item.disabled.file else item.where, item.count),
        *to_try(*advice.shorts(item)),
        *calls((*item.stack[:-1], item.where) if item.disabled.file else item.stack[:-1]),
        *(_with_it(one) if one is not None else ()),
    ]


def _with_it(one: Occurrence) -> Iterator[TextLine]:
    """Yield a line for each change that a break caused, without advice."""
    breaks, repeats = one.with_it("break"), one.with_it("recompile")
    # A function that is now compiled by itself follows from the break and needs no line.
    graphs = [
        graph
        for graph in one.with_it("graph")
        if DESCRIPTIONS[graph.first.layer].cause(graph.change.cause).falls_with
    ]
    if not (breaks or one.with_it("eager") or graphs or repeats):
        return
    yield detail("and because of it:")
    for item in breaks:
        name = f"{item.change.id}  " if item.change.id else ""
        yield detail(f"{position(item.where)} breaks, too: {name}{item.change.reason}", 2)
    breaking = {item.where.key for item in breaks}
    for left in one.with_it("eager"):
        if left.where.key not in breaking:
            yield detail(f"{position(left.where)} runs without the compiler", 2)
    for where, numbers, why in _recompiled(repeats):
        yield detail(f"{position(where)} is compiled again ({numbers}){why}", 2)
    for graph in graphs:
        yield detail(f"{position(graph.where)} is a graph more: {graph.change.reason}", 2)


def _recompiled(repeats: Sequence[Occurrence]) -> Iterator[tuple[Frame, str, str]]:
    """Yield each recompiled function, how often, and the reason if there is only one."""
    found: dict[tuple[str, ...], list[Occurrence]] = {}
    called: dict[tuple[str, ...], tuple[Frame, int]] = {}
    for one in repeats:
        found.setdefault(one.where.key[:2], []).append(one)
        for follower in one.with_it("recompile"):
            function = follower.where.key[:2]
            where, times = called.get(function, (follower.where, 0))
            called[function] = (where, times + len(follower.items))
    for key, same in found.items():
        times = sum(len(one.items) for one in same) + called.pop(key, (NOWHERE, 0))[1]
        first = same[0]
        numbers = f"{times} times"
        if times == len(first.items):
            numbers = _repeats(first).graphs
        why = f": {first.change.reason}" if len(same) == 1 else ""
        yield first.where, numbers, why
    for where, times in called.values():
        yield where, "once" if times == 1 else f"{times} times", ""


def _repeats(one: Occurrence) -> Repeats:
    return Repeats(tuple(item for item in one.items if isinstance(item, Recompile)))


def graph_lines(sign: str, item: Graph, count: int = 1) -> list[TextLine]:
    source = f"   (from dynamo {', '.join(item.sources)})" if item.sources else ""
    name = f"{item.cause}   " if item.reason else item.cause
    return [
        signed(sign, f"{item.reason}{source}{process(item)}", name),
        *of_graph(item, count),
        *at(item.where, count),
        *to_try(advice.short(item)),
        *calls(item.stack[:-1]),
    ]


def compiled_lines(sign: str, item: Graph, count: int) -> list[TextLine]:
    """Return the lines for a graph that was compiled where a cache should have had it."""
    key = f"no cache had it (key {item.hash})" if item.hash else "no cache had it"
    return [
        signed(sign, f"{item.cause}   {item.name}{process(item)}", "compiled   "),
        *at(item.where, count),
        detail(key),
        *([detail(item.reason)] if item.reason else ()),
    ]


def _entry(sign: str, item: Graph, count: int) -> list[TextLine]:
    reason = f"   {item.reason}" if item.reason else ""
    note = "   may be new" if sign == "*" else ""
    return [
        signed(sign, f"{item.cause}{reason}{process(item)}{note}"),
        *of_graph(item, count),
        *at(item.where, count),
    ]


def recompile_word(layer: str) -> str:
    """Return the word of a layer for a recompile."""
    causes = DESCRIPTIONS[layer].causes
    return next((cause.name for cause in causes if cause.kind == "repeat"), "recompile")


def recompile_lines(sign: str, one: Occurrence) -> list[TextLine]:
    item = _repeats(one)
    word = recompile_word(item.first.layer)
    return [
        signed(sign, f"{word} {item.graphs}   {item.reason}"),
        *meanwhile(item.first, first=item.is_loop),
        *_again(item.first),
        *to_try(advice.short(item.first)),
        *calls(_callers(item.first)),
        *_followers(one, item.since),
    ]


def _again(item: Recompile) -> Iterator[TextLine]:
    """Yield the line of the guard, the line that sets the guarded value, and the function."""
    yield from at(item.guard)
    origin = _set_in(item.origin, (item.guard, item.where, *item.stack))
    if item.guard.file and item.where.file:
        yield from (*origin, detail(f"recompiles {position(item.where)}"))
    else:
        yield from (*at(item.where), *origin)


def _set_in(origin: Frame, known: Sequence[Frame]) -> list[TextLine]:
    """Return the line that sets what the guard is about, unless it is shown anyway."""
    if not origin.file or origin in known:
        return []
    return [detail(f"set in {position(origin)}"), *code(origin)]


def _callers(item: Recompile) -> Sequence[Frame]:
    """Return the calls without those shown already: a function's rest begins where it is called."""
    shown = {(one.file, one.line) for one in (item.guard, item.where)}
    stack = item.stack
    while stack and (stack[-1].file, stack[-1].line) in shown:
        stack = stack[:-1]
    return stack


def _followers(one: Occurrence, since: str) -> Iterator[TextLine]:
    """Yield the functions that are recompiled with their caller."""
    followers = one.with_it("recompile")
    if followers:
        yield detail(f"and recompiled with its caller, since {since}:")
    for follower in followers[:MOST_FUNCTIONS]:
        graphs = [item.graph for item in follower.items if isinstance(item, Recompile)]
        names = ", ".join((*graphs[:3], "...") if graphs[3:] else graphs)
        yield detail(f"{position(follower.where)}   {names}", 2)
    if len(followers) > MOST_FUNCTIONS:
        yield detail(f"... and {plural(len(followers) - MOST_FUNCTIONS, 'more function')}", 2)
    below = (other.change for other in one.with_it("graph"))
    yield from _more_graphs([other for other in below if other.layer != one.change.layer])


def _more_graphs(found: Sequence[Difference]) -> Iterator[TextLine]:
    """Yield the graphs of another layer that a change causes."""
    if found:
        yield detail("and because of it:")
    for one in found:
        yield detail(f"{position(one.where)} is a graph more: {one.reason or one.cause}", 2)


def eager_lines(sign: str, item: Eager) -> list[TextLine]:
    return [
        signed(sign, item.reason, "eager   "),
        *meanwhile(item, first=item.count > 1),
        *at(item.where, item.count),
        *to_try(advice.short(item)),
    ]


def _gone(one: Occurrence, shown: SourceLines) -> list[TextLine]:
    change = one.change
    if change.kind == "graph" and one.is_entry and change.layer == PLACES_LAYER:
        below = (other.change for other in one.with_it("graph"))
        return [
            signed("-", f"{change.cause}   no longer compiled"),
            *at(shown.defined(change.where)),
            *_more_graphs([*below]),
        ]
    if change.kind == "graph":
        times = f"   x{-change.growth}" if change.growth < -1 else ""
        return [signed("-", f"{change.cause}{times}   gone"), *at(change.where)]
    name = f"{change.id}  " if change.id else ""
    return [signed("-", f"{change.reason or 'break'}   gone", name), *at(change.where)]


def _reworded(one: Occurrence) -> list[TextLine]:
    now = f"{one.change.id or ''} {one.change.reason}"
    return [signed("~", f"{one.change.was} is now {now}".rstrip()), *at(one.where)]
