"""What a person should look at first in a log, or of a script: reasons, most frequent first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pytest_graphbreak import advice
from pytest_graphbreak.layers.tt.programs import Program
from pytest_graphbreak.logs import origin
from pytest_graphbreak.logs.origin import CUT, DYNAMO, ORIGINS
from pytest_graphbreak.logs.reading import Reading
from pytest_graphbreak.model.layers import DESCRIPTIONS
from pytest_graphbreak.model.record import Frame, Graph, Recompile, Record


@dataclass(frozen=True, slots=True)
class LogFinding:
    """One reason at one place. ``kind`` is what it made: break, recompile, eager, or a cause.

    ``stack`` are the frames above ``where``, the nearest first; ``advice`` is
    one line, empty where there is none.
    """

    kind: str
    reason: str
    count: int
    where: Frame
    id: str = ""
    stack: tuple[Frame, ...] = ()
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """Graphs that failed the same way: after which stage, with what error, which they are."""

    stage: str
    error: str
    count: int
    first: Program


def findings(reading: Reading) -> list[LogFinding]:
    """Everything that made an extra graph or left the compiler, most frequent first."""
    cut = (
        graph
        for graph in _deepest(reading)
        if graph.cause not in ("fx", "other") or graph.reason == CUT
    )
    return ranked(reading.record, cut)


def observed(record: Record) -> list[LogFinding]:
    """The same of what was observed live. Device graphs that are whole FX graphs are no finding."""
    layer = DESCRIPTIONS[record.headline]
    if layer.breaks:  # its breaks tell of its graphs
        return ranked(record, ())
    graphs = (graph for graph in record.graph_list if graph.layer == layer.name)
    return ranked(record, (graph for graph in graphs if not layer.cause(graph.cause).is_plain))


def ranked(record: Record, cut: Iterable[Graph]) -> list[LogFinding]:
    """Breaks, recompiles and what was left to eager, with the device graphs that were ``cut``."""
    found = [
        LogFinding(
            "break",
            item.reason,
            item.count,
            item.where,
            item.id or "",
            item.stack[:-1][::-1],
            advice.short(item) or "",
        )
        for item in record.breaks
    ]
    found += _grouped(record.recompile_list, "recompile")
    found += [
        LogFinding("eager", item.reason, item.count, item.where, advice=advice.short(item) or "")
        for item in record.eager
    ]
    causes: dict[str, list[Graph]] = {}
    for graph in cut:
        causes.setdefault(graph.cause, []).append(graph)
    for cause, graphs in causes.items():
        found += _grouped(graphs, cause)
    return sorted(found, key=lambda item: -item.count)


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


def homes(reading: Reading) -> list[tuple[Frame, int]]:
    """The source lines that TT graphs mostly come from, with the number of graphs of each."""
    return homes_of(reading.record, "tt")


def homes_of(record: Record, layer: str) -> list[tuple[Frame, int]]:
    """The source lines that the graphs of a layer come from, with the number of graphs of each."""
    graphs = (graph for graph in record.graph_list if graph.layer == layer)
    return Counter(graph.where for graph in graphs if graph.where.file).most_common()


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


def _grouped(items: Iterable[Recompile | Graph], kind: str) -> list[LogFinding]:
    groups: dict[tuple[str, tuple[str, str, str]], list[Recompile | Graph]] = {}
    for item in items:
        groups.setdefault((item.reason, item.where.key), []).append(item)
    return [
        LogFinding(
            kind,
            same[0].reason,
            len(same),
            same[0].where,
            advice=advice.short(same[0]) or "",
        )
        for same in groups.values()
    ]
