"""The sentences and findings of a log's report, the same on a terminal and on a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from pytest_graphbreak.layers.tt.markers import Guess
from pytest_graphbreak.layers.tt.programs import Program
from pytest_graphbreak.logs import origin
from pytest_graphbreak.logs.completeness import Completeness
from pytest_graphbreak.logs.origin import CUT, DYNAMO, ORIGINS, UNKNOWN
from pytest_graphbreak.logs.reading import Reading
from pytest_graphbreak.model.layers import DESCRIPTIONS
from pytest_graphbreak.model.record import Graph, Record
from pytest_graphbreak.report.findings import ReasonAtPlace, made_of, ranked
from pytest_graphbreak.text.numbers import plural


@dataclass(frozen=True, slots=True)
class Failure:
    """Graphs that failed the same way: after which stage, with what error, which they are."""

    stage: str
    error: str
    count: int
    first: Program


def findings(reading: Reading) -> list[ReasonAtPlace]:
    """Everything that made an extra graph or left the compiler, most important first."""
    cut = (
        graph
        for graph in _deepest(reading)
        if graph.cause not in ("fx", "other") or graph.reason == CUT
    )
    return ranked(reading.record, cut)


def failures(reading: Reading) -> list[Failure]:
    """Failed graphs by how they failed, most frequent first; of those that were kept."""
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
    """By origin, the causes of device graphs beyond the first of each compiled function."""
    found: dict[str, Counter[str]] = {}
    for name in ORIGINS:
        causes = Counter(
            {
                cause: count
                for (known, cause), count in reading.origins.items()
                if known == name and (known, cause) != (DYNAMO, "entry")
            }
        )
        if causes:
            found[name] = causes
    return found


def _deepest(reading: Reading) -> Iterator[Graph]:
    """Graphs of the deepest device layer, with why they exist and not how they ended."""
    layer = reading.record.headline
    if not reading.headers:
        yield from (graph for graph in reading.record.graph_list if graph.layer == layer == "xla")
        return
    for program in reading.programs.list:
        yield Graph(
            "tt", program.name, program.cause, where=origin.where(program), reason=program.why
        )


def counts(reading: Reading) -> Iterator[tuple[str, str]]:
    """What was counted on each layer, deepest first, and how sure it is."""
    layers = reading.record.layers
    if "tt" in layers:
        yield "tt", _tt(reading)
        if shapes := _shapes(reading):
            yield "stages", shapes
    for layer in ("xla", "dynamo"):
        if layer in layers:
            yield layer, _layer(reading, layer)
    if reading.signs.debug:
        yield "build", "debug: ModuleBuilder::buildModule is in the log"
    elif reading.headers:
        yield "build", "no line of a debug build is in the log; counting needs none"
    if reading.processes > 1:
        yield "from", f"{reading.processes} processes"


def sure(reading: Reading) -> str:
    """How sure the number of device graphs is."""
    if reading.headers:
        return "certain" if reading.is_certain else "likely"
    levels = [guess.sure for guess in reading.guesses.values()]
    for level in ("guess", "likely", "sure"):
        if level in levels:
            return level
    return ""


def verdict(completeness: Completeness) -> str:
    """Say in one line whether the log is complete enough for the analysis."""
    if completeness.whole:
        return "the log is complete"
    return f"the log is incomplete ({plural(len(completeness.gaps), 'gap')})"


def origins(reading: Reading) -> Iterator[tuple[str, str]]:
    """Where extra device graphs come from: origin, and its causes with their numbers."""
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
    """Where the first graph that failed this way is."""
    program = item.first
    name = program.name or "a module without a name"
    return f"first: graph {program.number}, {name}, at byte {program.offset:,} of the log"


def _tt(reading: Reading) -> str:
    parts = []
    programs = reading.programs
    if reading.headers:
        parts.append(f"{programs.completed:,} lowered")
        if failed := programs.failed.total():
            parts.append(f"{failed:,} failed")
        if cut := programs.unfinished.total():
            parts.append(f"{cut:,} cut off by the end of the log")
        if programs.resharding:
            parts.append(f"{programs.resharding:,} only gather sharded tensors")
        how = f"{sure(reading)}: headers"
        if reading.copies:
            parts.append(f"{plural(reading.copies, 'header line')} occur twice and count once")
    else:
        parts.append(f"{reading.completed:,} lowered")
        how = f"{sure(reading)}: worked out from {plural(reading.ends, 'END marker')}"
    if not reading.headers and not reading.guesses:
        return "0 graphs"
    return f"{plural(reading.graphs, 'graph')} ({how}): {', '.join(parts)}"


def _shapes(reading: Reading) -> str:
    """How many stages graphs had, most frequent first."""
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


def _layer(reading: Reading, layer: str) -> str:
    logged = layer != "dynamo" or "tracing" in reading.signs.dynamo
    return of_layer(reading.record, layer, logged)


def of_layer(record: Record, layer: str, logged: bool = True) -> str:
    """What one layer of a record counts. ``logged`` is False where a log has no Dynamo graphs."""
    text = plural(record.graphs.get(layer, 0), "graph") if logged else "graphs not logged"
    if parts := made_of(record, layer):
        text += f" = {parts}"
    if DESCRIPTIONS[layer].breaks:
        breaks = [item for item in record.breaks if item.layer == layer]
        eager = [item for item in record.eager if item.layer == layer]
        text += f"; {plural(len(breaks), 'graph break')}"
        text += f", {plural(record.recompiles.get(layer, 0), 'recompile')}"
        if eager:
            text += f", {plural(len(eager), 'function')} left to eager"
    return text
