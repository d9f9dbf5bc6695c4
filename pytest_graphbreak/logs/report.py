"""The report of a log for a terminal: the counts, then what took most time or made most graphs.

``lines`` puts it together, in the form of the report of a script (``report.unjudged``), whose parts
it uses. A ``Reading`` is what was read of the log, ``Completeness`` its gaps. The functions below
``findings`` choose what is shown; the page of ``graphbreak analyze`` calls them, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import starmap
from pathlib import Path

from pytest_graphbreak.judging.finding import Finding
from pytest_graphbreak.judging.findings import findings_of_record
from pytest_graphbreak.layers.tt.programs import Program
from pytest_graphbreak.logs.completeness import Completeness
from pytest_graphbreak.logs.markers import GUESS, LIKELY, SURE
from pytest_graphbreak.logs.origin import CUT, DYNAMO, MAKERS, UNKNOWN
from pytest_graphbreak.logs.reading import Reading
from pytest_graphbreak.model.items import Graph
from pytest_graphbreak.report.counts import layer_counts
from pytest_graphbreak.report.lines import count_line
from pytest_graphbreak.report.unjudged import (
    Homes,
    counted_row,
    fix_commands,
    found_lines,
    home_lines,
    homes_of,
    models,
    section,
)
from pytest_graphbreak.text.files import display_path
from pytest_graphbreak.text.numbers import plural, size
from pytest_graphbreak.text.output import BLANK, TextLine
from pytest_graphbreak.text.safe import cut


def lines(reading: Reading, completeness: Completeness) -> list[TextLine]:
    """Return the whole report of one log."""
    return [
        *_head(reading, completeness),
        *found_lines(findings(reading)),
        *section("failed", [*map(_failure_lines, failures(reading))]),
        *home_lines(homes_in(reading)),
        *_next(completeness),
        *fix_commands(_script(reading), reading.record),
    ]


def _script(reading: Reading) -> str:
    """Return the script whose log this is if it is here, and can be run again by its name."""
    path = Path(reading.script)
    return "" if path.name == "__main__.py" or not path.is_file() else display_path(path)


def _head(reading: Reading, completeness: Completeness) -> Iterator[TextLine]:
    gaps = plural(len(completeness.gaps), "gap")
    state = f"the log is incomplete ({gaps})" if completeness.gaps else "the log is complete"
    yield TextLine(f"{reading.path}   {size(reading.size)}, {state}")
    yield from starmap(counted_row, counts(reading))
    for label, text in origins(reading):
        yield counted_row("origin", f"{label}: {text}")
    for gap in completeness.gaps:
        yield counted_row("gap", gap)


def _failure_lines(alike: Sequence[Program]) -> list[TextLine]:
    """Return the lines of graphs that failed in the same way: how, and where the first one is."""
    first = alike[0]
    stage = f"after {first.last}" if first.last else "at once"
    words = f"{stage}: {first.error}" if first.error else f"{stage}, no error in the log"
    name = first.name or "a module without a name"
    where = f"first: graph {first.number}, {name}, at byte {first.offset:,} of the log"
    return [count_line(len(alike), cut(words)), TextLine(cut(where), indent=11)]


def _next(completeness: Completeness) -> Iterator[TextLine]:
    if not completeness.commands:
        return
    yield BLANK
    yield TextLine("to know all of it, run", indent=2)
    for command in completeness.commands:
        yield TextLine(indent=4, kind="command", command=command)


# What is shown of a log, the same on a terminal and on a page.


def findings(reading: Reading) -> list[Finding]:
    """Return everything that made an extra graph or left the compiler, most important first.

    A device graph of the cause ``fx`` is a graph of Dynamo, which has a finding of its own. Of the
    cause ``other`` nothing is known, unless torch_xla cut the graph.
    """
    graphs = _deepest(reading)
    return findings_of_record(
        reading.record,
        (graph for graph in graphs if graph.cause not in ("fx", "other") or graph.reason == CUT),
    )


def failures(reading: Reading) -> list[list[Program]]:
    """Return the failed graphs that were kept, by stage and error, the most frequent first."""
    groups: dict[tuple[str, str], list[Program]] = {}
    for program in reading.tt.programs.list:
        if program.ended == "failed":
            groups.setdefault((program.last, program.error), []).append(program)
    return sorted(groups.values(), key=len, reverse=True)


def _deepest(reading: Reading) -> Iterator[Graph]:
    """Yield graphs of the deepest device layer, with why they exist.

    In the record the reason of a graph of the TT compiler also says how it failed (``reading``);
    that would make findings of their own here, so it is left out.
    """
    if not reading.tt.headers:
        if reading.record.headline == "xla":
            yield from (graph for graph in reading.record.graph_list if graph.layer == "xla")
        return
    for program in reading.tt.programs.list:
        yield Graph(
            "tt",
            program.name,
            program.origin.cause,
            where=program.place,
            reason=program.origin.reason,
            seconds=program.seconds,
        )


def homes_in(reading: Reading) -> Homes:
    """Return the lines that device graphs come from.

    Graphs of other layers have their places in the findings, so they are listed only if there are
    several models.
    """
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
            logged = layer != "dynamo" or "tracing" in reading.logged
            yield layer, layer_counts(layer, [reading.record], logged=logged)
    if reading.processes > 1:
        yield "from", f"{reading.processes} processes"


def sure(reading: Reading) -> str:
    """Return how certain the number of device graphs is; of several ranks, the least certain."""
    if reading.tt.headers:
        return "certain" if reading.is_certain else LIKELY
    levels = [guess.sure for guess in reading.guesses.values()]
    for level in (GUESS, LIKELY, SURE):
        if level in levels:
            return level
    return ""


def origins(reading: Reading) -> Iterator[tuple[str, str]]:
    """Yield who made graphs beyond the first of each function: ``torch_xla``, ``2 extra graphs``.

    Each maker (``logs.origin``) has a line, with the causes and their numbers.
    """
    by_origin: dict[str, Counter[str]] = {name: Counter() for name in MAKERS}
    for (name, cause), count in reading.origins.items():
        if (name, cause) != (DYNAMO, "entry"):
            by_origin[name][cause] = count
    for name, causes in by_origin.items():
        if causes and name == UNKNOWN:
            yield "not known", f"{plural(causes.total(), 'graph')}, since Dynamo did not log here"
        elif causes:
            parts = ", ".join(f"{count:,} {cause}" for cause, count in causes.most_common())
            yield name, f"{plural(causes.total(), 'extra graph')} ({parts})"


def _tt(reading: Reading) -> str:
    if not reading.tt.headers:
        if not reading.guesses:
            return "0 graphs"
        how = f"worked out from {plural(reading.tt.ends, 'END marker')}"
        lowered = f"{reading.completed:,} lowered"
        return f"{plural(reading.graphs, 'graph')} ({sure(reading)}: {how}): {lowered}"
    programs = reading.tt.programs
    parts = [f"{programs.completed:,} lowered"]
    for count, words in (
        (programs.failed.total(), "failed"),
        (programs.unfinished.total(), "cut off by the end of the log"),
        (programs.resharding, "only gather sharded tensors"),
    ):
        parts += [f"{count:,} {words}"] if count else []
    if reading.tt.copies.count:
        parts.append(f"{plural(reading.tt.copies.count, 'header line')} occur twice and count once")
    return f"{plural(reading.graphs, 'graph')} ({sure(reading)}: headers): {', '.join(parts)}"


def _shapes(reading: Reading) -> str:
    """Return the numbers of stages of graphs, most frequent first."""
    lengths: Counter[int] = Counter()
    for stages, count in reading.tt.programs.shapes.items():
        lengths[len(stages)] += count
    for guess in reading.guesses.values():
        if guess.stages:
            lengths[guess.stages] += guess.completed
    return ", ".join(
        f"{length} in {plural(count, 'graph')}" for length, count in lengths.most_common() if count
    )
