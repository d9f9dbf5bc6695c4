"""Dynamo's own count of graphs, held against ours."""

from __future__ import annotations

import threading
from typing import Any


class Ledger:
    """Dynamo's own count of graphs, ``counters["stats"]["unique_graphs"]``, against ours.

    A test may clear the counters at any moment. Clearing replaces the inner
    counter, or makes its value smaller; both only move the point that is counted
    from, and are never taken for a contradiction.
    """

    def __init__(self) -> None:
        self._counters: Any = None
        self._box: Any = None
        self._value = 0
        self._seen = 0
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
            if box is not self._box or value < self._value:
                self._value = 0  # cleared
            # Dynamo counts a graph a moment after us: another thread may be between.
            ahead = self._value + self._seen - value
            self._box, self._value, self._seen = box, value, max(0, ahead)
            return max(0, -ahead)

    def counted(self, since: tuple[int, int], graphs: int) -> bool:
        """Whether Dynamo counted the graphs that we saw since ``since``, or was cleared."""
        box, value = self._read()
        return since[0] != id(box) or value < since[1] or value >= since[1] + graphs

    def _read(self) -> tuple[Any, int]:
        # counters is a defaultdict: indexing it would leave an entry behind.
        box = dict.get(self._counters, "stats") if self._counters is not None else None
        return box, 0 if box is None else int(box.get("unique_graphs", 0))
