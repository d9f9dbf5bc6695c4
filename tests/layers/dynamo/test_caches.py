"""What the counters of the caches say of one graph; ``test_backends`` asks inductor itself."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest

from pytest_graphbreak.layers.dynamo import caches

NOTHING = caches.count(None)


def counters(**values: int) -> dict[str, Any]:
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
        # The forward pass is found and the backward pass is not.
        ({"autograd_cache_miss": 1, "fxgraph_cache_hit": 1, "fxgraph_cache_miss": 1}, "compiled"),
        ({"autograd_cache_miss": 1}, None),
    ],
)
def test_where_the_code_came_from(values: dict[str, int], cached: str | None) -> None:
    assert caches.since(NOTHING, caches.count(counters(**values))) == cached
    before = counters(fxgraph_cache_hit=7, autograd_cache_miss=3)
    after = counters(**{"fxgraph_cache_hit": 7, "autograd_cache_miss": 3, **values})
    for name in ("fxgraph_cache_hit", "autograd_cache_miss"):
        if name in values:
            after["aot_autograd" if name.startswith("a") else "inductor"][name] += before[
                "aot_autograd" if name.startswith("a") else "inductor"
            ][name]
    assert caches.since(caches.count(before), caches.count(after)) == cached


def test_a_test_that_clears_the_counters_leaves_it_unknown() -> None:
    before = caches.count(counters(fxgraph_cache_hit=3))
    assert caches.since(before, caches.count(counters(autograd_cache_hit=1))) is None


def test_looking_leaves_no_entry_behind() -> None:
    empty: dict[str, Any] = defaultdict(Counter)
    caches.count(empty)
    assert dict(empty) == {}
