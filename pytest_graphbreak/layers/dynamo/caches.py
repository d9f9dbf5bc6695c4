"""Whether a graph's code was compiled, or loaded from a cache on disk: for information alone.

Inductor and AOTAutograd count the hits and misses of their caches in
``torch._dynamo.utils.counters``: ``fxgraph_cache_hit`` of torch/_inductor/codecache.py,
``autograd_cache_hit`` of torch/_functorch/_aot_autograd/autograd_cache.py, torch 2.6 to 2.13.
What ``torch.compiler.load_cache_artifacts`` brought is found by them, too. They are read,
never written. A backend that counts nothing (``eager``, or caches that are off) says nothing.
"""

from __future__ import annotations

from typing import Any, Final

_HITS: Final = ("cache_hit",)
_MISSES: Final = ("cache_miss", "cache_bypass")
_COUNTERS: Final = (("aot_autograd", "autograd_"), ("inductor", "fxgraph_"))
"""AOTAutograd's cache stands over inductor's: what it finds was not looked up below."""

Count = tuple[tuple[int, int], ...]
"""Hits and misses of each cache."""


def count(counters: dict[str, Any] | None) -> Count:
    """Where the counters of the caches stand."""
    # counters is a defaultdict: indexing it would leave an entry behind.
    known: dict[str, Any] = counters or {}
    boxes = [(dict.get(known, name) or {}, prefix) for name, prefix in _COUNTERS]
    return tuple(
        (
            sum(box.get(f"{prefix}{name}", 0) for name in _HITS),
            sum(box.get(f"{prefix}{name}", 0) for name in _MISSES),
        )
        for box, prefix in boxes
    )


def since(before: Count, now: Count) -> str | None:
    """``loaded`` where all was found in a cache, ``compiled`` where something was not, or None."""
    moved = [(now[0] - was[0], now[1] - was[1]) for was, now in zip(before, now, strict=True)]
    if any(hits < 0 or misses < 0 for hits, misses in moved):
        return None  # the test cleared the counters
    above, below = moved
    if above[0] and not above[1]:
        return "loaded"
    if below[1]:
        return "compiled"
    return "loaded" if below[0] else None
