"""The ledger never takes a cleared counter for a contradiction, nor misses a missed graph."""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from typing import Any
from unittest import mock

import pytest

from pytest_graphbreak.layers.dynamo.ledger import Ledger


@pytest.fixture
def counters() -> Any:
    return defaultdict(Counter)


@pytest.fixture
def ledger(counters: Any) -> Ledger:
    ledger = Ledger()
    ledger.begin(counters)
    return ledger


def make(counters: Any, ledger: Ledger | None = None) -> None:
    """A graph, as Dynamo makes it: seen by us, if at all, a moment before it is counted."""
    if ledger is not None:
        ledger.saw()
    counters["stats"]["unique_graphs"] += 1


def test_what_was_seen_is_not_missed(counters: Any, ledger: Ledger) -> None:
    for _ in range(3):
        make(counters, ledger)
    assert ledger.missed() == 0
    assert ledger.missed() == 0


def test_what_passed_by_is_missed_once(counters: Any, ledger: Ledger) -> None:
    make(counters, ledger)
    make(counters)
    make(counters)
    assert ledger.missed() == 2
    assert ledger.missed() == 0


def test_a_graph_that_is_just_being_counted_is_no_surplus(counters: Any, ledger: Ledger) -> None:
    ledger.saw()
    assert ledger.missed() == 0
    counters["stats"]["unique_graphs"] += 1
    assert ledger.missed() == 0
    make(counters)
    assert ledger.missed() == 1


@pytest.mark.parametrize("how", ["all", "stats", "zero"])
def test_clearing_moves_the_point_that_is_counted_from(
    counters: Any, ledger: Ledger, how: str
) -> None:
    for _ in range(3):
        make(counters, ledger)
    ledger.missed()
    if how == "all":
        counters.clear()
    elif how == "stats":
        counters["stats"].clear()
    else:
        counters["stats"]["unique_graphs"] = 0
    assert ledger.missed() == 0
    make(counters)
    assert ledger.missed() == 1


def test_reading_leaves_no_entry_behind(counters: Any, ledger: Ledger) -> None:
    ledger.missed()
    ledger.saw()
    assert counters == {}


def test_counted(counters: Any, ledger: Ledger) -> None:
    make(counters, ledger)
    since = ledger.saw()
    assert not ledger.counted(since, 1)
    counters["stats"]["unique_graphs"] += 1
    assert ledger.counted(since, 1)
    assert not ledger.counted(since, 2)
    counters.clear()
    assert ledger.counted(since, 2)


def test_without_counters_nothing_is_said() -> None:
    ledger = Ledger()
    ledger.begin(None)
    ledger.saw()
    assert ledger.missed() == 0


@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("before", [1, 2, 284])
def test_counters_that_are_put_back_are_no_new_graphs(
    counters: Any, ledger: Ledger, before: int, inner: bool
) -> None:
    for _ in range(before):
        make(counters, ledger)
    ledger.missed()
    with mock.patch.dict(counters["stats"] if inner else counters, clear=True):
        assert ledger.missed() == 0
        for _ in range(3):
            make(counters, ledger)
            assert ledger.missed() == 0
    assert ledger.missed() == 0
    make(counters, ledger)
    make(counters)
    assert ledger.missed() == 1


def test_a_copy_that_is_put_back_is_no_new_graph(counters: Any, ledger: Ledger) -> None:
    for _ in range(30):
        make(counters, ledger)
    ledger.missed()
    kept = copy.deepcopy(dict(counters))
    counters.clear()
    make(counters, ledger)
    assert ledger.missed() == 0
    counters.clear()
    counters.update(kept)
    assert ledger.missed() == 0
    make(counters)
    assert ledger.missed() == 1
