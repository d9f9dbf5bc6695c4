"""The measured window of a test: its own fixtures and its call.

It opens before the first fixture of function scope is set up, which pytest does after all of wider
scope, and closes when the call has ended. Caches are isolated when it opens: whatever a test's own
fixtures enter, warm up or leave pending is part of the test. A test without such fixtures is
measured from its call on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_graphbreak.measuring.measure import Measurement, isolate
from pytest_graphbreak.model.record import Record


class TestWindow:
    """The window of one attempt of one test.

    ``fixtures`` counts, by layer, the graphs that its own fixtures made, ``around`` those that
    fixtures of wider scope made meanwhile, which do not belong to the test.
    """

    __test__ = False

    def __init__(self, root: Path, nodeid: str, *, cold: bool) -> None:
        if cold:
            isolate(nodeid)
        self._root = root
        self._measurement = Measurement(root)
        self._is_excluding = self._called = False
        self.around: Counter[str] = Counter()
        self.fixtures: Counter[str] = Counter()

    def call(self) -> None:
        """Begin the call; the graphs so far are the share of its fixtures."""
        self._called = True
        self.fixtures = Counter(self._measurement.peek().graphs)

    @contextmanager
    def exclude(self) -> Iterator[None]:
        """Exclude a fixture of wider scope that is set up because the test requested it."""
        if self._is_excluding:
            yield
            return
        self._is_excluding = True
        measurement = Measurement(self._root)
        try:
            with self._measurement.exclude():
                yield
        finally:
            self._is_excluding = False
            self.around.update(measurement.close().graphs)

    def close(self) -> Record:
        """Stop measuring; closing again returns the same record."""
        record = self._measurement.close()
        if not self._called:  # a fixture failed, or skipped the test
            self.fixtures = Counter(record.graphs)
        return record
