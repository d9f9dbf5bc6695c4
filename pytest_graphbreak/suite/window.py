"""The measured window of a test: its own fixtures and its call.

It opens before the first fixture of function scope is set up, which pytest does
after all of wider scope, and closes when the call has ended. Caches are isolated
where it opens: what a test's own fixtures enter, warm up or leave pending is
part of the test. A test without such fixtures is measured from its call on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_graphbreak.model.record import Record
from pytest_graphbreak.watching.measure import Measurement, isolate

if TYPE_CHECKING:
    from pytest_graphbreak.suite.trace import Trace


class TestWindow:
    """One attempt of one test.

    By layer: ``fixtures`` is what of its graphs its own fixtures made, ``around``
    what fixtures of wider scope made meanwhile, which is not the test's.
    """

    __test__ = False

    def __init__(self, root: Path, nodeid: str, *, cold: bool, trace: Trace | None) -> None:
        if cold:
            isolate(nodeid)
        self._root = root
        self._trace = trace
        if trace is not None:
            trace.start()
        self._measurement = Measurement(root)
        self._is_aside = self._called = False
        self.around: Counter[str] = Counter()
        self.fixtures: Counter[str] = Counter()

    def call(self) -> None:
        """The call begins: what was compiled so far is its fixtures' share."""
        self._called = True
        self.fixtures = Counter(self._measurement.peek().graphs)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """A fixture of wider scope is set up, since the test asked for it: that is not the test."""
        if self._is_aside:
            yield
            return
        self._is_aside = True
        other = Measurement(self._root)
        try:
            with self._measurement.aside():
                yield
        finally:
            self._is_aside = False
            self.around.update(other.close().graphs)

    def close(self) -> Record:
        """Stop measuring; closing again returns the same record."""
        if self._trace is not None:
            self._trace.stop()
        record = self._measurement.close()
        if not self._called:  # a fixture failed, or skipped the test
            self.fixtures = Counter(record.graphs)
        return record
