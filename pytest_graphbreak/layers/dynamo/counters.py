"""Reads Dynamo's own counters: whether we saw each graph, and whether a cache on disk had it.

``graphs`` tells a ``Ledger`` of each graph that it sees, and ``sensors`` asks it for those that
Dynamo counted besides. ``graphs`` calls ``cache_counts`` before and after a backend, and
``cache_state`` compares.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, Final

_LEFT: dict[int, tuple[weakref.ref[Any], set[int]]] = {}
"""The values at which a counter was cleared or replaced, by its id: a fixture of a later test may
put one back."""


class Ledger:
    """Dynamo's own count of graphs, ``counters["stats"]["unique_graphs"]``, against ours.

    A test may clear the counters at any moment, and put them back
    (``mock.patch.dict(counters["stats"])``). Another inner counter, a smaller value,
    or one at which it was left before only moves the point that is counted from,
    and is never taken for graphs. From look to look (``count_missed``)::

        Dynamo's   seen by us   missed
        0 -> 3     3            0
        3 -> 5     1            1
        5 -> 0     0            0       cleared
        0 -> 5     0            0       put back, as it was left
    """

    def __init__(self) -> None:
        self._counters: Any = None
        self._inner: Any = None
        """The inner counter, ``counters["stats"]``, at the last look."""
        self._value = 0
        """Its number of graphs then."""
        self._seen: list[None] = []
        """An item for each graph that we saw: any thread may append one, and none is lost."""
        self._read_up_to = 0
        """The number of these items then."""
        self._ahead = 0
        """The graphs that we had seen then, and Dynamo had not counted yet."""

    def begin(self, counters: Any) -> None:
        """Count from now on, as the sensors go in. ``counters`` is None in a torch without them."""
        self._counters = counters
        self._inner, self._value = self._read()

    def count_seen(self) -> tuple[int, int]:
        """Count a graph on our side; return the value of Dynamo's counter, for ``counted``."""
        self._seen.append(None)
        inner, value = self._read()
        return id(inner), value

    def count_missed(self) -> int:
        """Return how many graphs Dynamo counted since the last call that we did not see.

        One thread at a time may call it.
        """
        inner, value = self._read()
        # Dynamo counts a graph a moment after us, so ours are read second: another thread may be
        # between.
        seen_in_all = len(self._seen)
        seen = self._ahead + seen_in_all - self._read_up_to
        ahead = self._value + seen - value  # below 0: Dynamo counted what we did not see
        is_replaced = self._inner is not None and inner is not self._inner
        is_moved = is_replaced or value < self._value
        if (is_moved or ahead < 0) and _was_left(inner, value):
            ahead = 0  # the test put an earlier counter or value back
        elif is_moved:
            self._remember_value()
            ahead = max(0, seen - value)
        self._inner, self._value = inner, value
        self._read_up_to, self._ahead = seen_in_all, max(0, ahead)
        return max(0, -ahead)

    def _remember_value(self) -> None:
        """Remember the counter's value when it was cleared or replaced."""
        if self._inner is not None:
            for key in [key for key, (inner, _) in _LEFT.items() if inner() is None]:
                del _LEFT[key]
            _LEFT.setdefault(id(self._inner), (weakref.ref(self._inner), set()))[1].add(self._value)

    def has_counted(self, since: tuple[int, int], graphs: int) -> bool:
        """Return whether Dynamo counted the graphs that we saw since ``since``, or was cleared."""
        inner, value = self._read()
        inner_before, value_before = since
        is_cleared = inner_before != id(inner) or value < value_before
        return is_cleared or value >= value_before + graphs

    def _read(self) -> tuple[Any, int]:
        """Return the inner counter, or None, and the number of graphs in it."""
        # counters is a defaultdict: indexing it would leave an entry behind.
        inner = dict.get(self._counters, "stats") if self._counters is not None else None
        return inner, 0 if inner is None else int(inner.get("unique_graphs", 0))


def _was_left(inner: Any, value: int) -> bool:
    """Return whether the counter has a value again at which it was cleared or replaced."""
    entry = _LEFT.get(id(inner))
    return entry is not None and entry[0]() is inner and value in entry[1]


# Whether a graph's code was compiled or loaded from a cache on disk: for information only.
#
# Inductor and AOTAutograd count the hits and misses of their caches in
# ``torch._dynamo.utils.counters``: ``fxgraph_cache_hit`` of torch/_inductor/codecache.py,
# ``autograd_cache_hit`` of torch/_functorch/_aot_autograd/autograd_cache.py, torch 2.9 to 2.13.
# What ``torch.compiler.load_cache_artifacts`` brought is found by them, too. They are read,
# never written. A backend that counts nothing (``eager``, or caches that are off) says nothing.

_CACHES: Final = tuple(
    (group, f"{prefix}_cache_{what}")
    for group, prefix in (("aot_autograd", "autograd"), ("inductor", "fxgraph"))
    for what in ("hit", "miss", "bypass")
)
"""AOTAutograd's cache comes before inductor's: what is found in it is not looked up there."""


def cache_counts(counters: dict[str, Any] | None) -> tuple[int, ...]:
    """Return hits, misses and bypasses of each cache."""
    # counters is a defaultdict: indexing it would leave an entry behind.
    return tuple((dict.get(counters or {}, group) or {}).get(name, 0) for group, name in _CACHES)


def cache_state(before: Sequence[int], now: Sequence[int]) -> str | None:
    """Return ``loaded`` if all was found in a cache, ``compiled`` if something was not, or None.

    Where AOTAutograd bypassed its cache it traces the graph again at every start, even if inductor
    then finds its own part (pytorch#192555).
    """
    moved = [after - earlier for earlier, after in zip(before, now, strict=True)]
    if min(moved) < 0:
        return None  # the test cleared the counters
    autograd_hit, autograd_miss, autograd_bypass, inductor_hit, inductor_miss, inductor_bypass = (
        moved
    )
    if autograd_bypass:
        return "compiled"
    if autograd_hit and not autograd_miss:
        return "loaded"
    if inductor_miss or inductor_bypass:
        return "compiled"
    return "loaded" if inductor_hit else None
