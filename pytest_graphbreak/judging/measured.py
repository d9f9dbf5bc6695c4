"""A record in the words of a baseline: what was observed, as a baseline would say it.

``values`` are compared with those of an entry (``verdict``), and are the budget where another run
takes the place of a baseline. ``measurement`` is what an update of the baselines takes: the values,
and what measured them. A place is named by ``place_of``, the cause of a graph by ``cause_of``;
whoever looks for them in a baseline names them so as well.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from pytest_graphbreak.baseline.form import MOST_ENTRIES, complete
from pytest_graphbreak.baseline.model import Measured
from pytest_graphbreak.config.packages import files_of, owner
from pytest_graphbreak.judging.guards import subject
from pytest_graphbreak.model.budget import (
    PLACES_LAYER,
    BaselinePlace,
    Cause,
    Values,
    place_key,
    writable,
)
from pytest_graphbreak.model.items import NOWHERE, Break, Eager, Frame, Graph, GraphName, Recompile
from pytest_graphbreak.model.layers import CAUSES
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.report import RunEnvironment
from pytest_graphbreak.model.versions import compilers, minors

MOST_LINES: Final = 24
"""The number of lines of a device that an entry names: those that ran or read most often."""
_COMPREHENSION: Final = re.compile(r"<(?:list|set|dict)comp>|<genexpr>")
"""A separate function up to Python 3.11, and part of the surrounding one from 3.12 on."""


def values(record: Record) -> Values:
    """Return the counts and places of a record, as a baseline entry holds them."""
    measured = complete(
        {
            "graphs": _positive(record.graphs),
            "recompiles": _positive(record.recompiles),
            "ops": _positive(record.ops),
            # Of a layer whose runs were not counted, each graph is taken to run once. What a
            # process that lives on has not told (None) is not recorded.
            "executions": {
                layer: count for layer, count in record.executions.items() if count is not None
            },
        }
    )
    return Values(
        **measured,
        breaks=tuple(_place(graph_break, id=graph_break.id) for graph_break in record.breaks),
        eager=tuple(_place(eager, id=None) for eager in record.eager),
        reads=_positive(record.reads),
        causes=causes(record),
        entries=_entries(record),
        lines=_lines(record),
    )


def _positive(counts: Mapping[str, int | None]) -> dict[str, int]:
    return {layer: count for layer, count in counts.items() if count}


def _entries(record: Record) -> tuple[str, ...]:
    """Return names in the order of the alphabet, so that two runs write the same."""
    operations = entries(record)
    names = [name for name in operations if not _COMPREHENSION.search(name)]
    most = sorted(names, key=lambda name: (-operations[name], name))
    return tuple(sorted(most[:MOST_ENTRIES]))


def entries(record: Record) -> dict[str, int]:
    """Return the functions that Dynamo compiled as they were called, with their operations."""
    operations: dict[str, int] = {}
    for graph in record.graphs_of(PLACES_LAYER):
        if graph.is_entry and graph.where.function:
            name = writable(graph.where.name)
            operations[name] = operations.get(name, 0) + (graph.ops or 0)
    return operations


def _lines(record: Record) -> dict[str, int]:
    """Return the lines that ran graphs on a device or read values, the most frequent first.

    They may lie deep in a model, so a baseline must name them for a reader to find them. Lines
    that run Dynamo's graphs are left out, since these are the calls in the test. So is a layer
    whose graphs ran once each and that read nothing: its lines are those of its graphs.
    """
    if not (record.execution_list or record.read_list):
        return {}
    layers = {
        layer
        for layer, count in record.executions.items()
        if layer != PLACES_LAYER
        and (count != record.graphs.get(layer, 0) or record.reads.get(layer, 0))
    }
    counts: Counter[str] = Counter()
    for line in (*record.execution_list, *record.read_list):
        if line.layer in layers and line.where != NOWHERE:
            counts[writable(line.line)] += line.count
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:MOST_LINES])


def causes(record: Record) -> tuple[Cause, ...]:
    """Return the causes of the graphs that are not plain, each cause and place once.

    A plain graph is one that was lowered whole, or the only entry of a layer. It is what the number
    of graphs leaves over (``matching``).
    """
    counts: dict[Cause, int] = {}
    recompiles = record.recompile_of
    for layer in filter(record.is_explained, record.graphs):
        graphs = record.graphs_of(layer)
        compiled = [graph for graph in graphs if graph.is_entry]
        for graph in graphs:
            is_plain = graph.is_lowered or compiled == [graph]
            if not is_plain and graph.cause in CAUSES[layer]:  # else it is of a later version
                cause = cause_of(graph, recompiles)
                counts[cause] = counts.get(cause, 0) + 1
    return tuple(replace(cause, count=count) for cause, count in counts.items())


def cause_of(graph: Graph, recompiles: Mapping[GraphName, Recompile] = {}) -> Cause:
    """Return the cause of a graph as in a baseline; without ``recompiles``, without its guard."""
    cause = Cause(graph.layer, graph.cause, *place_of(graph.where))
    recompile = recompiles.get((graph.layer, graph.name))
    if recompile is None:
        return cause
    # On other layers the place of the graph is the call.
    calls = recompile.stack[-1:] if recompile.layer == PLACES_LAYER else ()
    called = "".join(frame.code for frame in calls)
    return replace(cause, guard=subject(recompile.reason), called=called)


def _place(item: Break | Eager, *, id: str | None) -> BaselinePlace:
    where, code = place_of(item.where)
    return BaselinePlace(where, code, item.count, item.reason or None, id, item.layer)


def place_of(where: Frame) -> tuple[str, str]:
    """Return the identity of a place as in a baseline: ``where`` and normalised ``code``."""
    return place_key(where.name, where.code)


def owner_versions(record: Record, versions: Mapping[str, str]) -> dict[str, str]:
    """Return the versions of the packages that own places of a record."""
    names = dict.fromkeys(map(owner, files_of(record))) if versions else ()
    return {name: versions[name] for name in names if name in versions}


def measurement(nodeid: str, profile: str, environment: RunEnvironment, record: Record) -> Measured:
    """Return a record as input for ``baseline.update``; ``environment`` is that of its report."""
    return Measured(
        nodeid=nodeid,
        profile=profile,
        # Versions of the compilers of these layers, without unknown ones.
        versions=minors(environment.versions, compilers(record.layers)),
        values=values(record),
        layers=record.layers,
        packages=owner_versions(record, environment.packages),
    )
