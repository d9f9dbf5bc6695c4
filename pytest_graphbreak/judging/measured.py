"""Converts what was observed to what a baseline contains."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pytest_graphbreak.baseline.form import MOST_ENTRIES, complete
from pytest_graphbreak.baseline.model import Expected, Measured
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
from pytest_graphbreak.model.layers import CAUSES, DESCRIPTIONS, compilers, made_by
from pytest_graphbreak.model.record import (
    NOWHERE,
    Break,
    Eager,
    Frame,
    Graph,
    Recompile,
    Record,
)
from pytest_graphbreak.model.report import RunEnvironment
from pytest_graphbreak.model.versions import UNKNOWN_VERSIONS, Versions, minors, same_minor

MOST_LINES: Final = 24
"""The number of lines of a device that an entry names: those that ran or read most often."""
_COMPREHENSION: Final = re.compile(r"<(?:list|set|dict)comp>|<genexpr>")
"""A separate function up to Python 3.11, and part of the surrounding one from 3.12 on."""


def values(record: Record) -> Values:
    """Return the counts and places of a record, as a baseline entry holds them."""
    # What a process that lives on has not told is not recorded.
    executions = {layer: n for layer, n in record.executions.items() if n is not None}
    counts = complete(
        {
            "graphs": {layer: count for layer, count in record.graphs.items() if count},
            "recompiles": {layer: count for layer, count in record.recompiles.items() if count},
            "ops": {layer: count for layer, count in record.ops.items() if count},
            # Where runs were not counted, each graph is taken to run once.
            "executions": executions,
        }
    )
    return Values(
        **counts,
        breaks=tuple(_place(graph_break, id=graph_break.id) for graph_break in record.breaks),
        eager=tuple(_place(eager, id=None) for eager in record.eager),
        reads={layer: count for layer, count in record.reads.items() if count},
        causes=causes(record),
        entries=_entries(record),
        lines=_lines(record),
    )


def _entries(record: Record) -> tuple[str, ...]:
    """Return names in the order of the alphabet, so that two runs write the same."""
    operations = entries(record)
    names = [name for name in operations if not _COMPREHENSION.search(name)]
    most = sorted(names, key=lambda name: (-operations[name], name))
    return tuple(sorted(most[:MOST_ENTRIES]))


def _lines(record: Record) -> dict[str, int]:
    """Return the lines of devices, which may lie deep in a model; tests call Dynamo's graphs.

    A layer whose graphs ran once each, and that read nothing, has none that need to be known.
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


def _place(item: Break | Eager, *, id: str | None) -> BaselinePlace:
    where, code = place_of(item.where)
    return BaselinePlace(
        where=where,
        code=code,
        count=item.count,
        reason=item.reason or None,
        id=id,
        layer=item.layer,
    )


# The causes of graphs, and which of them a baseline knows.


class MatchedGraphs(Struct, frozen=True):
    """The graphs of one layer, compared with those of the baseline.

    ``added`` are the new graphs, ``gone`` the causes that are gone, each with its recorded number
    and the number left. ``unsure`` is true if one more function is compiled and it is not known
    which of several was recorded; then all of them are in ``added``.
    """

    added: tuple[Graph, ...] = ()
    gone: tuple[tuple[Cause, int], ...] = ()
    unsure: bool = False


def place_of(where: Frame) -> tuple[str, str]:
    """Return the identity of a place as in a baseline: ``where`` and normalised ``code``."""
    return place_key(name_of(where), where.code)


def causes(record: Record) -> tuple[Cause, ...]:
    """Return the causes of the graphs that are not plain, each cause and place once."""
    counts: dict[Cause, int] = {}
    recompiles = _recompiles(record)
    for layer in filter(record.is_explained, record.graphs):
        graphs = [graph for graph in record.graph_list if graph.layer == layer]
        compiled = [graph for graph in graphs if is_entry(graph)]
        for graph in graphs:
            # What is left out here is what the number of graphs leaves over (``match``).
            if is_lowered(graph) or compiled == [graph]:
                continue
            if graph.cause not in CAUSES[layer]:  # in a report of a later version
                continue
            cause = cause_of(graph, recompiles)
            counts[cause] = counts.get(cause, 0) + 1
    return tuple(replace(cause, count=count) for cause, count in counts.items())


def match(
    record: Record, expected: Expected, layer: str, versions: Versions = UNKNOWN_VERSIONS
) -> MatchedGraphs | None:
    """Compare the graphs of a layer with the baseline; None if either side lacks causes.

    Graphs claim the causes that a baseline has (``_claim_graphs``). A baseline names no plain
    graph: what its number of graphs leaves over is plain, and the plain graphs that claimed nothing
    fill that. On a layer that compiles the user's code it is one at most, the only entry; below
    that it is as many graphs of the layer above as were lowered whole.

    What varied in a recompile is compared only if the same minor version of the compiler recorded
    it (``versions`` are the current ones), since each version words guards differently.
    """
    recorded = expected.values.causes_of(layer)
    if recorded is None or not record.is_explained(layer):
        return None
    graphs = [graph for graph in record.graph_list if graph.layer == layer]
    same_compiler = same_minor(made_by(layer, versions), expected.causes_with(layer))
    recompiles = _recompiles(record)
    causes_of_graphs = [(graph, cause_of(graph, recompiles)) for graph in graphs]
    remaining, unmatched = _claim_graphs(causes_of_graphs, recorded, same_compiler=same_compiler)
    added = [graph for graph in unmatched if not (is_entry(graph) or is_lowered(graph))]
    intended = [graph for graph in unmatched if is_entry(graph) or is_lowered(graph)]
    gone = [
        (cause, cause.count - remaining[cause.key]) for cause in recorded if remaining[cause.key]
    ]
    unnamed = expected.values.graphs.get(layer, 0) - sum(cause.count for cause in recorded)
    if unnamed and DESCRIPTIONS[layer].above is None:
        matched = _match_entry(intended, expected, layer)
    else:
        matched = MatchedGraphs(tuple(intended[unnamed:]))
    return MatchedGraphs((*added, *matched.added), (*gone, *matched.gone), matched.unsure)


def _match_entry(entries: Sequence[Graph], expected: Expected, layer: str) -> MatchedGraphs:
    """Compare the entries that claimed no cause with the only one that a baseline leaves over.

    Of several, the recorded one has a name of the baseline; without names nobody knows which it is,
    and all are added.
    """
    names = expected.values.entries if layer == PLACES_LAYER else ()
    recorded = next((graph for graph in entries if writable(name_of(graph.where)) in names), None)
    if len(entries) == 1 and not names:
        recorded = entries[0]
    added = tuple(graph for graph in entries if graph is not recorded)
    if recorded is None and names:
        plain = next(cause.name for cause in DESCRIPTIONS[layer].causes if cause.is_plain)
        gone = Cause(layer, plain, where=names[0])
        return MatchedGraphs(added, gone=((gone, 0),))
    return MatchedGraphs(added, unsure=recorded is None and len(entries) > 1)


def _claim_graphs(
    graphs: Sequence[tuple[Graph, Cause]], recorded: Sequence[Cause], *, same_compiler: bool
) -> tuple[Counter[tuple[str, ...]], list[Graph]]:
    """Return the remaining number of each recorded cause, and the graphs that claim none.

    Each graph claims one of a recorded cause, in three rounds; who claims in an early round is out
    of the later ones, so an exact match is never taken by a loose one:

    1. the same cause at the same place, by the same guard, called by the same line;
    2. the same, called by whatever line, which an edit of the caller moves;
    3. the same cause at the same place, of the causes recorded without a guard; of all causes if
       ``same_compiler`` is false, since another version words guards in its own way.
    """
    remaining = Counter({cause.key: cause.count for cause in recorded})
    unguarded = [cause for cause in recorded if not (same_compiler and cause.guard)]
    rounds: Sequence[tuple[Callable[[Cause], tuple[str, ...]], Sequence[Cause]]] = (
        (lambda cause: cause.key, recorded),
        (lambda cause: cause.key[:-1], recorded),  # without ``called``
        (lambda cause: cause.place, unguarded),
    )
    for identity, claimable in rounds:
        unclaimed = []
        for graph, cause in graphs:
            matches = (match for match in claimable if identity(match) == identity(cause))
            free = next((match for match in matches if remaining[match.key]), None)
            if free is None:
                unclaimed.append((graph, cause))
            else:
                remaining[free.key] -= 1
        graphs = unclaimed
    return remaining, [graph for graph, _ in graphs]


def is_entry(graph: Graph) -> bool:
    """Return whether a graph is a function that was compiled when it was called."""
    layer = DESCRIPTIONS[graph.layer]
    return layer.above is None and layer.cause(graph.cause).is_plain


def entries(record: Record) -> dict[str, int]:
    """Return the functions that Dynamo compiled as they were called, with their operations."""
    operations: Counter[str] = Counter()
    for graph in record.graph_list:
        if graph.layer == PLACES_LAYER and is_entry(graph) and graph.where.function:
            operations[writable(name_of(graph.where))] += graph.ops or 0
    return dict(operations)


def is_lowered(graph: Graph) -> bool:
    """Return whether a graph is one of the layer above, lowered as a whole."""
    layer = DESCRIPTIONS[graph.layer]
    return layer.above is not None and bool(graph.sources) and layer.cause(graph.cause).is_plain


def cause_of(graph: Graph, recompiles: Mapping[tuple[str, str], Recompile] = {}) -> Cause:
    """Return the cause of a graph as in a baseline; without ``recompiles``, without its guard."""
    cause = Cause(graph.layer, graph.cause, *place_of(graph.where))
    recompile = recompiles.get((graph.layer, graph.name))
    if recompile is None:
        return cause
    # On other layers the place of the graph is the call.
    calls = recompile.stack[-1:] if recompile.layer == PLACES_LAYER else ()
    called = "".join(frame.code for frame in calls)
    return replace(cause, guard=subject(recompile.reason), called=called)


def _recompiles(record: Record) -> dict[tuple[str, str], Recompile]:
    """Return the recompiles by layer and name of the graph that each made."""
    return {(recompile.layer, recompile.graph): recompile for recompile in record.recompile_list}


def name_of(where: Frame) -> str:
    """Return the function of a place, ``file::qualified.name``; its file if it has none."""
    return f"{where.file}::{where.function}" if where.function else where.file
