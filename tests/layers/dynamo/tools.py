"""The observer of Dynamo and its windows, the cases for this torch, and the counts of a record."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from cases.dynamo import CASES, Case, Expect
from pytest_graphbreak.layers.dynamo.observer import DynamoObserver
from pytest_graphbreak.layers.protocol import Window
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


def closed(opened: Window) -> Record:
    """Close a window; return what it saw."""
    seen = opened.close()
    assert seen is not None
    return seen


@contextlib.contextmanager
def window() -> Iterator[list[Record]]:
    """A window around a block; what it saw is the one item of the list, afterwards."""
    opened = observer.open(places)
    seen: list[Record] = []
    try:
        yield seen
    finally:
        seen.append(closed(opened))


def watch(case: Case, compile: Callable[..., Any]) -> Record:
    """What a window of its own saw of a case, from a cold Dynamo."""
    observer.isolate(case.name)
    with window() as seen:
        case.run(compile)
    return seen[0]


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
