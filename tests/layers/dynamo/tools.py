"""The observer of Dynamo and its windows, the cases for this torch, and the counts of a record."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from cases.dynamo import CASES, Expect
from pytest_graphbreak.layers.dynamo.observer import DynamoObserver
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import Record
from tests.upstream import THREADS_CRASH

MINOR = tuple(int(part) for part in torch.__version__.split(".")[:2])
HERE = [
    case
    for case in CASES.values()
    if case.since <= MINOR and not (THREADS_CRASH and case.name == "two_threads")
]
observer = DynamoObserver()
places = Places(Path(__file__).parents[3])


@contextlib.contextmanager
def window() -> Iterator[list[Record]]:
    """A window around a block; what it saw is the one item of the list, afterwards."""
    opened = observer.open(places)
    seen: list[Record] = []
    try:
        yield seen
    finally:
        last = opened.close()
        assert last is not None
        seen.append(last)


def counts(seen: Record) -> Expect:
    events = sum(graph_break.count for graph_break in seen.breaks)
    graphs, recompiles = (numbers.get("dynamo", 0) for numbers in (seen.graphs, seen.recompiles))
    return Expect(graphs, events, len(seen.breaks), recompiles, len(seen.eager))


@pytest.fixture(autouse=True, scope="module")
def _quiet() -> Iterator[None]:
    """Dynamo warns of much in these cases; the tests that look at that are elsewhere."""
    level = logging.getLogger("torch").level
    logging.getLogger("torch").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    logging.getLogger("torch").setLevel(level)
