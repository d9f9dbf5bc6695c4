"""Converts what was observed to what a baseline contains."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

from pytest_graphbreak.baseline.form import MOST_ENTRIES, complete
from pytest_graphbreak.baseline.model import Measured
from pytest_graphbreak.config.device import files_of, owner
from pytest_graphbreak.judging.causes import causes, entries, place_of
from pytest_graphbreak.model.budget import PLACES_LAYER, BaselinePlace, Values, writable
from pytest_graphbreak.model.layer import minors
from pytest_graphbreak.model.layers import compilers
from pytest_graphbreak.model.record import NOWHERE, Break, Eager, Record
from pytest_graphbreak.model.report import RunEnvironment

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
        breaks=tuple(_place(place, place.id) for place in record.breaks),
        eager=tuple(_place(place, None) for place in record.eager),
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


def _place(item: Break | Eager, id: str | None) -> BaselinePlace:
    where, code = place_of(item.where)
    return BaselinePlace(
        where=where,
        code=code,
        count=item.count,
        reason=item.reason or None,
        id=id,
        layer=item.layer,
    )
