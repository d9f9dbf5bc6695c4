"""Dynamo's own count of graphs, held against ours."""

from __future__ import annotations

import threading
import weakref
from typing import Any

_LEFT: dict[int, tuple[weakref.ref[Any], set[int]]] = {}
"""Counters that were left and still exist, by id: a fixture may put one back in the next window."""


class Ledger:
    """Dynamo's own count of graphs, ``counters["stats"]["unique_graphs"]``, against ours.

    A test may clear the counters at any moment, and put them back
    (``mock.patch.dict(counters, clear=True)``). Clearing replaces the inner
    counter, or makes its value smaller; putting back makes it larger. All of it
    only moves the point that is counted from, and is never taken for graphs.
    """

    def __init__(self) -> None:
        self._counters: Any = None
        self._box: Any = None
        self._value = 0
        self._seen = 0
        self._left: set[int] = set()
        """Where the counter stood whenever it was cleared or replaced while we looked."""
        self._lock = threading.Lock()

    def in_child(self) -> None:
        """After a fork: the lock may be held by a thread that is not here."""
        self._lock = threading.Lock()

    def begin(self, counters: Any) -> None:
        self._counters = counters
        self._box, self._value = self._read()

    def saw(self) -> tuple[int, int]:
        """One graph more on our side; where Dynamo's counter stood, for ``counted``."""
        with self._lock:
            self._seen += 1
            box, value = self._read()
            return id(box), value

    def missed(self) -> int:
        """How many graphs Dynamo counted since the last call that we did not see."""
        with self._lock:
            box, value = self._read()
            cleared = box is not self._box or value < self._value
            # Dynamo counts a graph a moment after us: another thread may be between.
            ahead = (0 if cleared else self._value) + self._seen - value
            if ahead < 0 and self._was_at(box, value):
                ahead = 0  # put back
            elif cleared:
                self._leave()
            self._box, self._value, self._seen = box, value, max(0, ahead)
            return max(0, -ahead)

    def _leave(self) -> None:
        """Remember where the counter stood when it was cleared or replaced."""
        self._left.add(self._value)
        if self._box is not None:
            for key in [key for key, (box, _) in _LEFT.items() if box() is None]:
                del _LEFT[key]
            _LEFT.setdefault(id(self._box), (weakref.ref(self._box), set()))[1].add(self._value)

    def _was_at(self, box: Any, value: int) -> bool:
        """Whether the counter stands again where one stood that was left."""
        left = _LEFT.get(id(box))
        return value in self._left or (left is not None and left[0]() is box and value in left[1])

    def counted(self, since: tuple[int, int], graphs: int) -> bool:
        """Whether Dynamo counted the graphs that we saw since ``since``, or was cleared."""
        box, value = self._read()
        return since[0] != id(box) or value < since[1] or value >= since[1] + graphs

    def _read(self) -> tuple[Any, int]:
        # counters is a defaultdict: indexing it would leave an entry behind.
        box = dict.get(self._counters, "stats") if self._counters is not None else None
        return box, 0 if box is None else int(box.get("unique_graphs", 0))
