"""The words of a red test, and of the terminal summary: plain lines, no colour.

Everything from outside (names, reasons, source lines) is made harmless here
(``safe``), since these texts go to terminals and CI logs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_graphbreak import advice
from pytest_graphbreak.baseline.model import Known, minor, same_minor
from pytest_graphbreak.config.packages import owner
from pytest_graphbreak.config.typed import Typed
from pytest_graphbreak.judging.verdict import Step, Verdict
from pytest_graphbreak.model.record import (
    NOWHERE,
    Break,
    Eager,
    Frame,
    Graph,
    Recompile,
    Record,
    causes_told,
    decomposition,
)
from pytest_graphbreak.report.fallen import Fallen, sort
from pytest_graphbreak.report.repeats import Series, series
from pytest_graphbreak.text.safe import console, printable

MOST_PLACES = 12
"""Places that a failure shows in full; what is left out is counted."""
NEAR = 2
"""Calls above a place that are shown in any case."""


@dataclass(frozen=True, slots=True)
class Context:
    """What the text needs to know besides the record and its verdict.

    ``baseline`` is the file as it is shown (``baselines/tests/test_a.yaml``),
    with ``baseline_line`` of the entry; ``recorded_torch`` measured it,
    ``torch`` is running now. ``typed`` is how pytest was started, ``test`` where
    the test is, ``accept`` what to type where baselines are not written from here:
    in CI, and for a report of another machine. ``packages`` are the versions of those
    that own places, now and when they were recorded.
    """

    nodeid: str
    profile: str
    torch: str | None = None
    baseline: str | None = None
    baseline_line: int | None = None
    recorded_profile: str | None = None
    recorded_torch: str | None = None
    accept: str | None = None
    typed: Typed = field(default_factory=Typed)
    test: Frame = NOWHERE
    fixtures: Mapping[str, int] = field(default_factory=dict)
    """What of its graphs the test's fixtures made before its call, by layer."""
    packages: Mapping[str, str] = field(default_factory=dict)
    recorded_packages: Mapping[str, str] = field(default_factory=dict)


def failure(verdict: Verdict, record: Record, context: Context) -> str:
    """What a person sees first. Sections are separated by blank lines."""
    if verdict.name == "error":
        return "\n".join(_blocks(["graph budget: " + _first_error(record)], _errors(record)))
    return "\n".join(
        _blocks(
            [headline(verdict, record)],
            _counts(verdict, record),
            _operations(verdict),
            _causes(verdict, record, context.fixtures),
            _nowhere(verdict, record, context),
            _shrunk(verdict, record),
            _places(verdict, record),
            _footer(verdict, record, context),
        )
    )


def _blocks(*blocks: Iterable[str]) -> Iterator[str]:
    """Lines of all blocks that have any, a blank line between two."""
    first = True
    for block in blocks:
        lines = list(block)
        if lines and not first:
            yield ""
        first = first and not lines
        yield from map(console, lines)


def _first_error(record: Record) -> str:
    return f"could not see: {printable(record.errors[0])}"


def _errors(record: Record) -> Iterator[str]:
    for error in record.errors[1:]:
        yield f"  and {printable(error)}"
    yield "  A gate that cannot see does not pass, and nothing is recorded."


def headline(verdict: Verdict, record: Record) -> str:
    """One line: the count that moved most, and whose number it passed."""
    if verdict.name == "new":
        return f"graph budget: no baseline for this test ({_totals(record)})"
    if verdict.emptied:
        return _nothing_left(verdict, record)
    steps = verdict.over or verdict.lost or verdict.fewer
    if not steps:
        return f"graph budget: {verdict.name}, {_totals(record)}"
    step = max(steps, key=lambda item: (abs(item.growth), item.layer == record.headline))
    sign = f"{step.growth:+d}"
    return f"graph budget: {_amount(step)}, {_who(step)} {step.allowed} ({sign})"


def _nothing_left(verdict: Verdict, record: Record) -> str:
    """A layer that makes no graph any more: worse than any that makes more."""
    step = next(step for step in verdict.lost if step.what == "graphs" and not step.now)
    made = f"{_totals(record)} still" if any(record.graphs.values()) else "nothing was compiled"
    return f"graph budget: no {step.layer} graph any more, {_who(step)} {step.allowed} ({made})"


def _who(step: Step) -> str:
    if step.growth < 0:
        return "the baseline has" if step.by == "baseline" else "the marker allows"
    return f"the {step.by} allows"


def _amount(step: Step) -> str:
    if step.what == "graphs":
        return f"{step.now} {step.layer} {_plural('graph', step.now)}"
    if step.what == "recompiles":
        return f"{step.now} {step.layer} {_plural('recompile', step.now)}"
    if step.what == "ops":
        return f"{step.now} captured {_plural('operation', step.now)} left in {step.layer} graphs"
    if step.what == "breaks":
        return f"{step.now} {_plural('breaking place', step.now)}"
    return f"{step.now} {_plural('place', step.now)} left the compiler"


def _plural(word: str, count: int) -> str:
    return word if count == 1 else word + "s"


def _totals(record: Record) -> str:
    counts = {layer: record.graphs.get(layer, 0) for layer in record.layers}
    made = {layer: count for layer, count in counts.items() if count}
    if counts and not made:
        made = {record.headline: 0}
    parts = [f"{count} {layer} {_plural('graph', count)}" for layer, count in made.items()]
    if record.breaks:
        parts.append(f"{len(record.breaks)} {_plural('breaking place', len(record.breaks))}")
    return ", ".join(parts) or "nothing was compiled"


def _counts(verdict: Verdict, record: Record) -> Iterator[str]:
    """The table of what moved, what went to none first: ``  xla      1 -> 4   +3``."""
    steps = _unique((*verdict.over, *verdict.lost, *verdict.fewer))
    steps = [step for step in steps if step.what != "ops"]
    for step in sorted(steps, key=lambda item: item.what != "graphs" or item.now > 0):
        name = step.layer if step.what == "graphs" else step.what
        if step.what == "recompiles":
            name = f"{step.layer} recompiles"
        note = "" if step.by == "baseline" else "   (marker)"
        yield f"  {name:<18} {step.allowed:>3} -> {step.now:<3}  {step.growth:+d}{note}"


def _operations(verdict: Verdict) -> Iterator[str]:
    """``  captured operations 2 -> 4`` of each layer: whether more or less of it is compiled."""
    moved: dict[tuple[int, int], list[str]] = {}
    for step in verdict.ops:
        moved.setdefault((step.allowed, step.now), []).append(step.layer or "")
    for (was, now), layers in moved.items():
        words = "more" if now > was else "less"
        yield f"  captured operations {was} -> {now}   ({', '.join(layers)})"
        yield f"    {words} of the program is compiled now"


def _unique(steps: Iterable[Step]) -> list[Step]:
    return list(dict.fromkeys(steps))


def _causes(
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
            yield f"  {count} {layer} {_plural('graph', count)} = {causes_told(causes)}"
            if own := (fixtures or {}).get(layer):
                yield f"    {own} of {'it' if count == 1 else 'them'} in the test's fixtures"


def _nowhere(verdict: Verdict, record: Record, context: Context) -> Iterator[str]:
    """Where nothing is compiled any more and nothing broke: what to look for, and where."""
    if not verdict.emptied or record.breaks or record.eager or any(record.graphs.values()):
        return
    if record.attempted:
        number = f"{record.attempted} {_plural('function', record.attempted)}"
        yield f"  - {number} looked at, and no tensor operation found to compile"
        words = "compile the function that computes, and not one that only calls or returns"
    else:
        yield "  - nothing was handed to the compiler"
        words = (
            "look for a torch.compile that is gone, torch.compiler.disable, "
            'or set_stance("force_eager")'
        )
    yield from (*_at(context.test), *_try(words))


def _shrunk(verdict: Verdict, record: Record) -> Iterator[str]:
    """Where fewer operations are captured in as many graphs: what each of them still has."""
    lost = {step.layer: step for step in verdict.lost if step.what == "ops"}
    if not lost:
        return
    layer, step = next(iter(lost.items()))
    graphs = [graph for graph in record.graph_list if graph.layer == layer]
    for graph in graphs[:MOST_PLACES]:
        number = f"{graph.ops or 0} of {step.allowed} operations left"
        if len(graphs) > 1:
            number = f"{graph.ops or 0} of the {step.now} operations that are left"
        yield f"  - {layer} graph {printable(graph.name)} has {number}{_process(graph)}"
        yield from _at(graph.where)
    if len(graphs) > MOST_PLACES:
        yield f"  ... and {len(graphs) - MOST_PLACES} more graphs (the JSON report has them all)"
    if not verdict.added and not verdict.left:
        yield from _try(
            "what it called before runs without the compiler now: look for a torch.compile of "
            'less, torch.compiler.disable, set_stance("force_eager"), an exception that is caught'
        )


def _places(verdict: Verdict, record: Record) -> Iterator[str]:
    """Added, gone and known, each with its place; the last lines of a long list are counted."""
    recompiles = _telling_recompiles(verdict, record)
    graphs = _telling_graphs(verdict, record)
    found = sort(record, verdict.added, verdict.left, recompiles, graphs)
    shown: list[list[str]] = [
        *(_break("+", *pair) for pair in found.breaks),
        *(_graph("+", item) for item in found.graphs),
        *(_entry(item, count) for item, count in _entries(verdict, record)),
        *(_recompile("+", item) for item in series(found.recompiles)),
        *(_eager("+", item) for item in found.eager),
        *(_known("-", item) for item in (*verdict.gone, *verdict.returned)),
        *(_reworded(old, new) for old, new in verdict.reworded),
    ]
    for lines in shown[:MOST_PLACES]:
        yield from lines
    if len(shown) > MOST_PLACES:
        yield f"  ... and {len(shown) - MOST_PLACES} more places (the JSON report has them all)"
    if verdict.known:
        ids = ", ".join(dict.fromkeys(item.id or "break" for item in verdict.known))
        number = len(verdict.known)
        yield f"  = {ids}   {number} known {_plural('break', number)} unchanged"


def _telling_graphs(verdict: Verdict, record: Record) -> Iterator[Graph]:
    """Graphs that exist for a reason of their own, where their layer grew.

    Those of dynamo are told by breaks and recompiles, but for the buckets of DDP.
    """
    grown = {step.layer for step in verdict.over if step.what == "graphs"}
    seen: set[tuple[str, ...]] = set()
    for graph in record.graph_list:
        if graph.layer not in grown or graph.cause == "fx":
            continue
        if graph.layer == "dynamo" and graph.cause != "bucket":
            continue
        key = (graph.layer, graph.cause, graph.reason, *graph.where.key)
        if key not in seen:
            seen.add(key)
            yield graph


def _entries(verdict: Verdict, record: Record) -> Iterator[tuple[Graph, int]]:
    """The functions that were compiled, and how often, where nothing else tells why there are more.

    A baseline has counts and no names of these, so which of them is new is not known.
    """
    growth = dict[str, int]()
    for step in verdict.over:
        if step.layer == "dynamo":
            growth[step.what] = max(step.growth, growth.get(step.what, 0))
    if verdict.added or growth.get("graphs", 0) <= growth.get("recompiles", 0):
        return
    graphs = [g for g in record.graph_list if (g.layer, g.cause) == ("dynamo", "entry")]
    places = Counter((graph.where.key, graph.process) for graph in graphs)
    if sum(places.values()) < 2:
        return
    for graph in graphs:
        if count := places.pop((graph.where.key, graph.process), 0):
            yield graph, count


def _telling_recompiles(verdict: Verdict, record: Record) -> Iterator[Recompile]:
    grown = {step.layer for step in verdict.over}
    return (item for item in record.recompile_list if item.layer in grown)


def _break(sign: str, item: Break, fallen: Fallen) -> list[str]:
    times = f"   x{item.count}" if item.count > 1 else ""
    name = f"{item.id}  " if item.id else ""
    return [
        f"  {sign} {name}{printable(item.reason)}{times}",
        *_at(item.where),
        *_from(item.stack[:-1]),
        *_try(advice.short(item)),
        *_with_it(fallen),
    ]


def _from(callers: Sequence[Frame]) -> Iterator[str]:
    """The calls that lead there, the nearest first: two, and the user's own line."""
    near = callers[-NEAR:][::-1]
    for frame in near:
        yield from (f"      from {_place(frame)}", *_code(frame))
    between = len(callers) - len(near) - 1
    if between >= 0:
        if between:
            yield f"      ... {between} {_plural('call', between)} between"
        yield from (f"      from {_place(callers[0])}", *_code(callers[0]))


def _with_it(fallen: Fallen) -> Iterator[str]:
    """What fell with a break, a line for each and no advice: it comes back with it."""
    again = series(fallen.recompiles)
    if not (fallen.breaks or fallen.eager or fallen.graphs or again):
        return
    yield "      and with it, until it is mended:"
    for item in fallen.breaks:
        name = f"{item.id}  " if item.id else ""
        yield f"        {_place(item.where)} breaks, too: {name}{printable(item.reason)}"
    told = {item.where.key for item in fallen.breaks}
    for left in fallen.eager:
        if left.where.key not in told:
            yield f"        {_place(left.where)} runs without the compiler"
    for one in again:
        guard = printable(one.reason)
        yield f"        {_place(one.first.where)} is compiled again ({one.graphs}): {guard}"
    for graph in fallen.graphs:
        yield f"        {_place(graph.where)} is a graph more: {printable(graph.reason)}"


def _graph(sign: str, item: Graph) -> list[str]:
    reason = f"   {printable(item.reason)}" if item.reason else ""
    source = f"   (from dynamo {', '.join(item.sources)})" if item.sources else ""
    return [
        f"  {sign} {item.cause}{reason}{source}{_process(item)}",
        *_at(item.where),
        *_from(item.stack[:-1]),
        *_try(advice.short(item)),
    ]


def _process(item: Graph) -> str:
    return f"   in process {printable(item.process)}" if item.process else ""


def _entry(item: Graph, count: int) -> list[str]:
    times = f"   x{count}" if count > 1 else ""
    return [f"  * entry{times}{_process(item)}", *_at(item.where)]


def _recompile(sign: str, item: Series) -> list[str]:
    return [
        f"  {sign} recompile {item.graphs}   {printable(item.reason)}",
        *_at(item.first.where),
        *_from(item.first.stack),
        *_try(advice.short(item.first)),
    ]


def _eager(sign: str, item: Eager) -> list[str]:
    times = f"   x{item.count}" if item.count > 1 else ""
    return [
        f"  {sign} eager   {printable(item.reason)}{times}",
        *_at(item.where),
        *_try(advice.short(item)),
    ]


def _known(sign: str, item: Known) -> list[str]:
    name = f"{item.id}  " if item.id else ""
    lines = [f"  {sign} {name}{printable(item.reason or 'break')}   gone"]
    file, _, function = item.where.partition("::")
    lines += _at(Frame(file, function, 0, item.code))
    return lines


def _reworded(old: Known, new: Break) -> list[str]:
    was = printable(old.id or old.reason or "")
    return [f"  ~ {was} is now {new.id or ''} {printable(new.reason)}".rstrip(), *_at(new.where)]


def _at(where: Frame) -> list[str]:
    return [f"      {_place(where)}", *_code(where)] if where.file else []


def _place(frame: Frame) -> str:
    line = f":{frame.line}" if frame.line else ""
    function = f" in {frame.function}" if frame.function else ""
    return printable(f"{frame.file}{line}{function}")


def _code(frame: Frame) -> list[str]:
    return [f"          {printable(frame.code)}"] if frame.code else []


def _try(words: str | None) -> list[str]:
    return [f"      try: {printable(words)}"] if words else []


def _footer(verdict: Verdict, record: Record, context: Context) -> Iterator[str]:
    """Where the baseline is, what it was measured with, and what to type next."""
    if context.baseline is not None:
        place = context.baseline
        if context.baseline_line:
            place += f":{context.baseline_line}"
        yield f"  baseline  {printable(place)}{_measured(context)}"
    for name, was, now in _moved(verdict, record, context):
        yield f"  package   {name} {was} -> {now}"
    if verdict.foreign:
        yield (
            f"  profile   {context.profile} was never recorded, "
            f"judged by the values of {verdict.foreign}"
        )
    by_marker = [step for step in (*verdict.over, *verdict.lost) if step.by == "marker"]
    if by_marker:
        yield "  marker    @pytest.mark.max_graphs on the test: mend the code, or raise the cap"
    if len(by_marker) < len(verdict.over) + len(verdict.lost) or verdict.name == "new":
        yield from _accept(verdict, context)


def _moved(verdict: Verdict, record: Record, context: Context) -> Iterator[tuple[str, str, str]]:
    """Packages of another version than was recorded, in which something of this is."""
    added = [
        *(item.where.file for item in verdict.added),
        *(item.where.file for item in verdict.left),
    ]
    again = [item.where.file for item in _telling_recompiles(verdict, record)]
    graphs = [item.where.file for item in _telling_graphs(verdict, record)]
    gone = [item.where.partition("::")[0] for item in (*verdict.gone, *verdict.returned)]
    for name in dict.fromkeys(map(owner, (*added, *again, *graphs, *gone))):
        was, now = context.recorded_packages.get(name), context.packages.get(name)
        if was and now and was != now:
            short = not same_minor(was, now)
            yield (
                printable(name),
                printable(str(minor(was)) if short else was),
                printable(str(minor(now)) if short else now),
            )


def _measured(context: Context) -> str:
    if not context.recorded_torch:
        return ""
    now = ""
    if context.torch and not same_minor(context.torch, context.recorded_torch):
        now = f" (now {minor(context.torch)}, where counts may differ)"
    on = f" on {context.recorded_profile}" if context.recorded_profile else ""
    return f", recorded{on} with torch {context.recorded_torch}{now}"


def _accept(verdict: Verdict, context: Context) -> Iterator[str]:
    word = "record" if verdict.name == "new" else "accept"
    flags = ["--graph-budget-record" if verdict.name == "new" else "--graph-budget-update"]
    if (verdict.name == "lost" and not verdict.shrunk) or verdict.emptied:
        flags.append("--graph-budget-prune")
    command = context.typed.test(context.nodeid, *flags)
    yield f"  {word:<8}  {command if context.accept is None else printable(context.accept)}"


def describe(record: Record) -> str:
    """The record of a test that failed by itself, for the section below its traceback."""
    lines = [_totals(record)]
    for layer in record.layers:
        causes = decomposition(record, layer)
        if causes:
            lines.append(f"  {layer}: {causes_told(causes)}")
    found = sort(record, record.breaks, record.eager, record.recompile_list)
    for item, fallen in found.breaks[:MOST_PLACES]:
        lines += _break(" ", item, fallen)
    for left in found.eager[:MOST_PLACES]:
        lines += _eager(" ", left)
    lines += [f"  {printable(error)}" for error in record.errors]
    return "\n".join(map(console, lines))


def block_failure(verdict: Verdict, record: Record) -> str:
    """The text of a block that went over its budget: no baseline, no marker to point at."""
    if verdict.name == "error":
        return "\n".join(_blocks(["graph budget: " + _first_error(record)], _errors(record)))
    return "\n".join(
        _blocks(
            [headline(verdict, record).replace("the marker allows", "the block allows")],
            _causes(verdict, record),
            _places(verdict, record),
        )
    )
