"""The ledger never takes a cleared counter for a contradiction, nor misses a missed graph."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any
from unittest import mock

import pytest

from pytest_graphbreak.layers.dynamo.counters import Ledger, cache_counts, cache_state

pytestmark = pytest.mark.once


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
        ledger.count_seen()
    counters["stats"]["unique_graphs"] += 1


def test_a_graph_that_is_just_being_counted_is_no_surplus(counters: Any, ledger: Ledger) -> None:
    ledger.count_seen()
    assert ledger.count_missed() == 0
    counters["stats"]["unique_graphs"] += 1
    assert ledger.count_missed() == 0
    make(counters)
    assert ledger.count_missed() == 1


@pytest.mark.parametrize("how", ["all", "stats", "zero"])
def test_clearing_moves_the_point_that_is_counted_from(
    counters: Any, ledger: Ledger, how: str
) -> None:
    for _ in range(3):
        make(counters, ledger)
    ledger.count_missed()
    if how == "all":
        counters.clear()
    elif how == "stats":
        counters["stats"].clear()
    else:
        counters["stats"]["unique_graphs"] = 0
    assert ledger.count_missed() == 0
    make(counters)
    assert ledger.count_missed() == 1


def test_what_was_cleared_since_is_taken_as_counted(counters: Any, ledger: Ledger) -> None:
    make(counters, ledger)
    since = ledger.count_seen()
    counters["stats"]["unique_graphs"] += 1
    assert not ledger.has_counted(since, 2)
    counters.clear()
    assert ledger.has_counted(since, 2)


@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("before", [1, 2, 284])
def test_counters_that_are_put_back_are_no_new_graphs(
    counters: Any, ledger: Ledger, before: int, inner: bool
) -> None:
    for _ in range(before):
        make(counters, ledger)
    ledger.count_missed()
    with mock.patch.dict(counters["stats"] if inner else counters, clear=True):
        assert ledger.count_missed() == 0
        for _ in range(3):
            make(counters, ledger)
            assert ledger.count_missed() == 0
    assert ledger.count_missed() == 0
    make(counters, ledger)
    make(counters)
    assert ledger.count_missed() == 1


# What the counters of the caches say of one graph; ``inductor`` has one of them.

NOTHING = cache_counts(None)


def cache_counters(**values: int) -> dict[str, Any]:
    """As Dynamo has them: ``autograd_cache_hit=1`` is of AOTAutograd, the rest of inductor."""
    found: dict[str, Any] = defaultdict(Counter)
    for name, value in values.items():
        found["aot_autograd" if name.startswith("autograd") else "inductor"][name] = value
    return found


@pytest.mark.parametrize(
    ("values", "cached"),
    [
        ({}, None),
        ({"autograd_cache_hit": 1}, "loaded"),
        ({"autograd_cache_hit": 1, "fxgraph_cache_hit": 2}, "loaded"),
        ({"autograd_cache_miss": 1, "fxgraph_cache_hit": 1}, "loaded"),
        ({"autograd_cache_miss": 1, "fxgraph_cache_miss": 1}, "compiled"),
        ({"autograd_cache_bypass": 1, "fxgraph_cache_bypass": 1}, "compiled"),
        # AOTAutograd traces it again at every start: autocast in forward, a custom Function.
        ({"autograd_cache_bypass": 1, "fxgraph_cache_hit": 2}, "compiled"),
        # The forward pass is found and the backward pass is not.
        ({"autograd_cache_miss": 1, "fxgraph_cache_hit": 1, "fxgraph_cache_miss": 1}, "compiled"),
        ({"autograd_cache_miss": 1}, None),
    ],
)
def test_where_the_code_came_from(values: dict[str, int], cached: str | None) -> None:
    assert cache_state(NOTHING, cache_counts(cache_counters(**values))) == cached
    before = Counter(fxgraph_cache_hit=7, autograd_cache_miss=3)
    after = cache_counters(**before + Counter(values))
    assert cache_state(cache_counts(cache_counters(**before)), cache_counts(after)) == cached


def test_a_test_that_clears_the_counters_leaves_it_unknown() -> None:
    before = cache_counts(cache_counters(fxgraph_cache_hit=3))
    assert cache_state(before, cache_counts(cache_counters(autograd_cache_hit=1))) is None
