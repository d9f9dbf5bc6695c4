"""Converts what was observed to what a baseline contains."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from pytest_graphbreak.baseline.model import Measured
from pytest_graphbreak.config.packages import owning
from pytest_graphbreak.judging.causes import causes, place_of
from pytest_graphbreak.model.budget import PLACES_LAYER, BaselinePlace, Values, writable
from pytest_graphbreak.model.layer import minors
from pytest_graphbreak.model.layers import compilers
from pytest_graphbreak.model.record import NOWHERE, Break, Eager, Record
from pytest_graphbreak.model.report import RunEnvironment

MOST_FUNCTIONS: Final = 24
"""The number of functions that an entry names: those that hold the most operations.

The eight largest are the outer ones of a model, which are reached whatever it loses: the embedding
of a distilbert is its 10th, the pooler of a bert its 14th (``cases/smaller.py``).
"""
_COMPREHENSION: Final = re.compile(r"<(?:list|set|dict)comp>|<genexpr>")
"""A separate function up to Python 3.11, and part of the surrounding one from 3.12 on."""


def values(record: Record) -> Values:
    """Return the counts and places of a record, as a baseline entry holds them."""
    return Values(
        graphs={layer: count for layer, count in record.graphs.items() if count},
        recompiles={layer: count for layer, count in record.recompiles.items() if count},
        breaks=tuple(_place(item, item.id) for item in record.breaks),
        eager=tuple(_place(item, None) for item in record.eager),
        executions={layer: count for layer, count in record.executions.items() if count},
        reads={layer: count for layer, count in record.reads.items() if count},
        work={layer: count for layer, count in record.work.items() if count},
        ops={layer: count for layer, count in record.ops.items() if count},
        causes=causes(record),
        functions=_functions(record),
        lines=_lines(record),
    )


def _functions(record: Record) -> dict[str, int]:
    # Equal numbers are sorted by name, so that two runs write the same.
    most = sorted(record.functions.items(), key=lambda item: (-item[1], item[0]))
    named = [
        (writable(name), count)
        for name, count in most
        if all(name.partition("::")) and not _COMPREHENSION.search(name)
    ]
    return dict(named[:MOST_FUNCTIONS])


def _lines(record: Record) -> dict[str, int]:
    """Return the lines of devices, which may lie deep in a model; tests call Dynamo's graphs."""
    found: Counter[str] = Counter()
    for item in (*record.execution_list, *record.read_list):
        if item.layer != PLACES_LAYER and item.where != NOWHERE:
            found[writable(item.line)] += item.count
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0]))[:MOST_FUNCTIONS])


def measured(nodeid: str, profile: str, environment: RunEnvironment, record: Record) -> Measured:
    """Return a record as input for ``baseline.update``; ``environment`` is that of its report."""
    return Measured(
        nodeid=nodeid,
        profile=profile,
        # Versions of the compilers of these layers, without unknown ones.
        versions=minors(environment.versions, compilers(record.layers)),
        values=values(record),
        layers=record.layers,
        packages=owning(record, environment.packages),
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
