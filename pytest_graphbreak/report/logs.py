"""The report of a log or a script in words, for a terminal and as markdown.

Both begin with the counts, followed by what took most time or made most graphs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path

from pytest_graphbreak.config.typed import own
from pytest_graphbreak.layers.tt.markers import Guess
from pytest_graphbreak.layers.tt.programs import Program
from pytest_graphbreak.logs import origin
from pytest_graphbreak.logs.completeness import Completeness
from pytest_graphbreak.logs.origin import CUT, DYNAMO, ORIGINS, UNKNOWN
from pytest_graphbreak.logs.reading import Reading
from pytest_graphbreak.model.layers import DESCRIPTIONS, JUDGED, LAYERS
from pytest_graphbreak.model.record import Frame, Graph, Record
from pytest_graphbreak.report.findings import (
    KINDS,
    ReasonAtPlace,
    counted,
    finding,
    home,
    homes_of,
    layer_counts,
    models,
    observed,
    order,
    ranked,
    section,
)
from pytest_graphbreak.report.lines import position
from pytest_graphbreak.text import safe
from pytest_graphbreak.text.files import shown
from pytest_graphbreak.text.output import BLANK, TextLine, plural, size
from pytest_graphbreak.text.safe import cut

# The contents for a log, the same on a terminal and on a page.


@dataclass(frozen=True, slots=True)
class Failure:
    """Graphs that failed in the same way: after which stage, with which error, and how many."""

    stage: str
    error: str
    count: int
    first: Program


def findings(reading: Reading) -> list[ReasonAtPlace]:
    """Return everything that made an extra graph or left the compiler, most important first."""
    cut = (
        graph
        for graph in _deepest(reading)
        if graph.cause not in ("fx", "other") or graph.reason == CUT
    )
    return ranked(reading.record, cut)


def failures(reading: Reading) -> list[Failure]:
    """Return the failed graphs that were kept, grouped by failure, most frequent first."""
    groups: dict[tuple[str, str], list[Program]] = {}
    for program in reading.programs.list:
        if program.ended == "failed":
            groups.setdefault((program.last, program.error), []).append(program)
    found = [
        Failure(stage, error, len(programs), programs[0])
        for (stage, error), programs in groups.items()
    ]
    return sorted(found, key=lambda item: -item.count)


def extra(reading: Reading) -> dict[str, Counter[str]]:
    """Return, by origin, causes of device graphs beyond the first of each compiled function."""
    found: dict[str, Counter[str]] = {name: Counter() for name in ORIGINS}
    for (name, cause), count in reading.origins.items():
        if (name, cause) != (DYNAMO, "entry"):
            found[name][cause] = count
    return {name: causes for name, causes in found.items() if causes}


def _deepest(reading: Reading) -> Iterator[Graph]:
    """Yield graphs of the deepest device layer, with why they exist and not how they ended."""
    layer = reading.record.headline
    if not reading.headers:
        yield from (graph for graph in reading.record.graph_list if graph.layer == layer == "xla")
        return
    for program in reading.programs.list:
        yield Graph(
            "tt",
            program.name,
            program.cause,
            where=origin.where(program),
            reason=program.why,
            seconds=program.seconds,
        )


def _homes_of(reading: Reading) -> Mapping[str, list[tuple[Frame, int]]]:
    """Return where device graphs come from; graphs above the device are listed by model only."""
    record = reading.record
    layer = record.headline
    return homes_of(record, layer) if layer == "tt" or models(record, layer) else {}


def counts(reading: Reading) -> Iterator[tuple[str, str]]:
    """Yield the counts of each layer, deepest first, with their certainty."""
    layers = reading.record.layers
    if "tt" in layers:
        yield "tt", _tt(reading)
        if shapes := _shapes(reading):
            yield "stages", shapes
    for layer in ("xla", "dynamo"):
        if layer in layers:
            logged = layer != "dynamo" or "tracing" in reading.signs.dynamo
            yield layer, layer_counts(layer, [reading.record], logged=logged)
    if reading.signs.debug:
        yield "build", "debug: ModuleBuilder::buildModule is in the log"
    elif reading.headers:
        yield "build", "no line of a debug build is in the log; counting needs none"
    if reading.processes > 1:
        yield "from", f"{reading.processes} processes"


def sure(reading: Reading) -> str:
    """Return how certain the number of device graphs is."""
    if reading.headers:
        return "certain" if reading.is_certain else "likely"
    levels = [guess.sure for guess in reading.guesses.values()]
    for level in ("guess", "likely", "sure"):
        if level in levels:
            return level
    return ""


def verdict(completeness: Completeness) -> str:
    """Return whether the log is complete enough for the analysis, on one line."""
    if completeness.whole:
        return "the log is complete"
    return f"the log is incomplete ({plural(len(completeness.gaps), 'gap')})"


def origins(reading: Reading) -> Iterator[tuple[str, str]]:
    """Yield the origins of extra device graphs, with their causes and numbers."""
    for name, causes in extra(reading).items():
        if name == UNKNOWN:
            yield "not known", f"{plural(causes.total(), 'graph')}, since Dynamo did not log here"
            continue
        parts = ", ".join(f"{count:,} {cause}" for cause, count in causes.most_common())
        yield name, f"{plural(causes.total(), 'extra graph')} ({parts})"


def failure(item: Failure) -> str:
    stage = f"after {item.stage}" if item.stage else "at once"
    return f"{stage}: {item.error}" if item.error else f"{stage}, no error in the log"


def first(item: Failure) -> str:
    """Return where the first graph is that failed this way."""
    program = item.first
    name = program.name or "a module without a name"
    return f"first: graph {program.number}, {name}, at byte {program.offset:,} of the log"


def _tt(reading: Reading) -> str:
    if not reading.headers:
        if not reading.guesses:
            return "0 graphs"
        how = f"worked out from {plural(reading.ends, 'END marker')}"
        lowered = f"{reading.completed:,} lowered"
        return f"{plural(reading.graphs, 'graph')} ({sure(reading)}: {how}): {lowered}"
    programs = reading.programs
    parts = [f"{programs.completed:,} lowered"]
    for count, words in (
        (programs.failed.total(), "failed"),
        (programs.unfinished.total(), "cut off by the end of the log"),
        (programs.resharding, "only gather sharded tensors"),
    ):
        parts += [f"{count:,} {words}"] if count else []
    if reading.copies:
        parts.append(f"{plural(reading.copies, 'header line')} occur twice and count once")
    return f"{plural(reading.graphs, 'graph')} ({sure(reading)}: headers): {', '.join(parts)}"


def _shapes(reading: Reading) -> str:
    """Return the numbers of stages of graphs, most frequent first."""
    lengths: Counter[int] = Counter()
    for stages, count in reading.programs.shapes.items():
        lengths[len(stages)] += count
    if not reading.headers:
        guess: Guess
        for guess in reading.guesses.values():
            if guess.stages:
                lengths[guess.stages] += guess.completed
    return ", ".join(
        f"{length} in {plural(count, 'graph')}" for length, count in lengths.most_common() if count
    )


MOST = 200
"""The number of entries of one section; the JSON report has all."""


def render(logs: Sequence[tuple[Reading, Completeness]]) -> str:
    """Return the report of all logs."""
    lines = ["# Graphs in logs", ""]
    for reading, completeness in logs:
        lines += _log(reading, completeness)
    return "\n".join(lines).rstrip() + "\n"


def _log(reading: Reading, completeness: Completeness) -> Iterator[str]:
    head = f"{size(reading.size)}; {verdict(completeness)}."
    yield from (f"## {safe.markdown(reading.path)}", "", head, "")
    yield from table(("layer", "counted"), counts(reading))
    yield from _gaps(completeness)
    if rows := list(origins(reading)):
        yield from ("### Where extra graphs come from", "")
        yield from table(("origin", "graphs"), rows)
    yield from most_frequent(findings(reading))
    yield from _list("Failed graphs", [_failed(item) for item in failures(reading)])
    yield from places(_homes_of(reading))


def _gaps(completeness: Completeness) -> Iterator[str]:
    if completeness.whole:
        return
    yield from _list("What this log lacks", [f"- {ours(gap)}" for gap in completeness.gaps])
    yield from ("To know all of it, run:", "")
    for command in completeness.commands:
        yield f"    {safe.console(command)}"
    yield ""


def _list(title: str, items: Sequence[str]) -> Iterator[str]:
    """Yield the items below a title; those over ``MOST`` are counted."""
    if items:
        yield from (f"### {title}", "", *items[:MOST], "", *_left_out(len(items)))


def _shown(text: str) -> str:
    """Return a text from the log or the program as markdown, cut to a readable length."""
    return safe.markdown(cut(text))


def most_frequent(found: list[ReasonAtPlace]) -> Iterator[str]:
    """Yield the reasons, each with its place and how to fix it."""
    if not found:
        return
    yield from (f"### {order(found).capitalize()}", "")
    for number, item in enumerate(found[:MOST], 1):
        name = f" {item.id}" if item.id else ""
        took = "" if item.seconds is None else f", {item.seconds:.1f} s"
        what = f"**{item.count:,}x {KINDS.get(item.kind, item.kind)}{name}**{took}"
        yield from (f"{number}. {what} {_shown(item.reason)}", "")
        yield from _frames((item.where, *item.stack))
        raised = position(item.raised) if item.raised.file else ""
        fixes = (("Fix", words) for words in item.advice)
        for label, text in (("Model", item.owner), ("Raised in", raised), *fixes):
            if text:
                yield from (f"   {label}: {_shown(text)}", "")
    yield from _left_out(len(found))


def _failed(item: Failure) -> str:
    return f"- **{item.count:,}x** {_shown(failure(item))}\n  {_shown(first(item))}"


def places(groups: Mapping[str, list[tuple[Frame, int]]]) -> Iterator[str]:
    """Yield the source lines that graphs come from."""
    for title, found in groups.items():
        yield from _list(safe.markdown(title), [_home(*item) for item in found])


def _home(frame: Frame, count: int) -> str:
    code = f" {_shown(frame.code)}" if frame.code else ""
    return f"- **{count:,}x** {_shown(position(frame))}{code}"


def _frames(frames: Iterable[Frame]) -> Iterator[str]:
    """Yield places with their source lines, as one block of code, the innermost first."""
    shown = [frame for frame in frames if frame.file]
    for number, frame in enumerate(shown):
        above = "from " if number else ""
        yield f"       {above}{safe.console(cut(position(frame)))}"
        if frame.code:
            yield f"           {safe.console(cut(frame.code))}"
    if shown:
        yield ""


def table(head: tuple[str, str], rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield a table with two columns of this package's own words."""
    yield from (f"| {head[0]} | {head[1]} |", "| --- | --- |")
    yield from (f"| {label} | {ours(text)} |" for label, text in rows)
    yield ""


def ours(text: str) -> str:
    """Return a sentence of this package with underscores and stars escaped."""
    return re.sub(r"([\\`*_<>|\[\]])", r"\\\1", safe.console(text))


def _left_out(count: int) -> Iterator[str]:
    if count > MOST:
        yield from (f"{count - MOST:,} more are in the JSON report.", "")


# The report of a log or a script for a terminal: plain lines, most important first.


def render_text(reading: Reading, completeness: Completeness) -> list[TextLine]:
    """Return the whole report of one log."""
    return [
        *_head(reading, completeness),
        *_found(findings(reading)),
        *section("failed", [list(lines) for lines in _failed_lines(reading)]),
        *_homes(_homes_of(reading)),
        *_next(completeness),
        *_fixing(_script(reading), reading.record),
    ]


def _script(reading: Reading) -> str:
    """Return the script whose log this is if it is here, and can be run again by its name."""
    path = Path(reading.script)
    return "" if path.name == "__main__.py" or not path.is_file() else shown(path)


def _head(reading: Reading, completeness: Completeness) -> Iterator[TextLine]:
    yield TextLine(f"{reading.path}   {size(reading.size)}, {verdict(completeness)}")
    yield from starmap(counted_row, counts(reading))
    for label, text in origins(reading):
        yield counted_row("origin", f"{label}: {text}")
    for gap in completeness.gaps:
        yield counted_row("gap", gap)


def counted_row(label: str, text: str) -> TextLine:
    """Return a line of the table at the top of a report."""
    return TextLine(text, indent=2, head=f"{label:<8} ")


def _failed_lines(reading: Reading) -> Iterator[Iterable[TextLine]]:
    for item in failures(reading):
        how = cut(failure(item))
        yield counted(item.count, how), TextLine(cut(first(item)), indent=11)


def _next(completeness: Completeness) -> Iterator[TextLine]:
    if not completeness.commands:
        return
    yield BLANK
    yield TextLine("to know all of it, run", indent=2)
    for command in completeness.commands:
        yield TextLine(indent=4, kind="command", command=command)


def script_lines(name: str, ended: str, record: Record) -> list[TextLine]:
    """Return the lines of a script for a terminal. ``ended`` is how it ended: ``exit 0``."""
    return [
        TextLine(f"{name}   {ended}"),
        *starmap(counted_row, _counts(record)),
        *_found(observed(record)),
        *_homes(homes_of(record, record.headline)),
        *_fixing(name, record),
    ]


def _fixing(name: str, record: Record) -> Iterator[TextLine]:
    """Yield the commands that fix and reproduce what a script broke, if it did."""
    if name.endswith(".py") and any(one.layer == "dynamo" for one in record.breaks):
        yield BLANK
        for words, command in (("try a fix: ", "fix"), ("or make a script of it: ", "repro")):
            yield TextLine(words, indent=2, command=own().graphbreak(command, name))


def _found(found: Sequence[ReasonAtPlace]) -> Iterator[TextLine]:
    """Yield the reasons, most important first, with their models if there are several."""
    named = len({item.owner for item in found}) > 1
    yield from section(order(found), [list(finding(item, named)) for item in found])


def _homes(groups: Mapping[str, list[tuple[Frame, int]]]) -> Iterator[TextLine]:
    for title, found in groups.items():
        yield from section(title, [home(*item) for item in found])


def script_markdown(name: str, ended: str, record: Record) -> str:
    """Return the same as markdown, in the same order, for an issue or a pull request."""
    lines = ["# Graphs of a script", "", f"## {safe.markdown(name)}", "", f"{ours(ended)}.", ""]
    lines += table(("layer", "counted"), _counts(record))
    lines += most_frequent(observed(record))
    if not DESCRIPTIONS[record.headline].breaks:
        lines += places(homes_of(record, record.headline))
    return "\n".join(lines).rstrip() + "\n"


def _counts(record: Record) -> Iterator[tuple[str, str]]:
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
