"""The measured window of a test: its own fixtures and its call.

It opens before the first fixture of function scope is set up, which pytest does after all of wider
scope, and closes when the call has ended. Caches are isolated when it opens: whatever a test's own
fixtures enter, warm up or leave pending is part of the test. A test without such fixtures is
measured from its call on.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pytest_graphbreak.model.record import Record
from pytest_graphbreak.watching.measure import Measurement, isolate


class TestWindow:
    """The window of one attempt of one test.

    ``fixtures`` counts, by layer, the graphs that its own fixtures made, ``around`` those that
    fixtures of wider scope made meanwhile, which do not belong to the test.
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
        if self._trace is not None:
            self._trace.stop()
        record = self._measurement.close()
        if not self._called:  # a fixture failed, or skipped the test
            self.fixtures = Counter(record.graphs)
        return record


# ``--graph-budget-trace=DIR``: torch's structured trace of each test that failed.
#
# The trace is what ``TORCH_TRACE`` writes, in a directory for each test, ready for ``tlparse``. A
# test that passed leaves nothing. torch's own handler does the writing; it is on the logger during
# the call phase only.
#
# Tracing costs time (see ``docs/how-to/fix-a-red-test.md``), and changes no count: Dynamo compiles
# the same and only logs more.

_UNSAFE = re.compile(r"[^\w.=-]+")


class Trace:
    """The trace of one test.

    Call ``start`` before the test's call, ``stop`` after it, then ``settle``.
    """

    def __init__(self, directory: Path, nodeid: str) -> None:
        self.directory = directory / slug(nodeid)
        self._handler: logging.Handler | None = None
        self._names: dict[Any, Any] | None = None

    def start(self) -> None:
        """Remove the trace of an earlier attempt, and begin. Without torch, nothing happens."""
        shutil.rmtree(self.directory, ignore_errors=True)
        try:
            logs = importlib.import_module("torch._logging._internal")
            handler = logs.LazyTraceHandler(str(self.directory))
            handler.setFormatter(logs.TorchLogsFormatter(trace=True))
        except (ImportError, AttributeError, TypeError):
            return
        self._names = _forget_names()
        self._handler = handler
        # First in the list, since torch's own handler removes itself in the middle of a call.
        logging.getLogger("torch.__trace").handlers.insert(0, handler)

    def stop(self) -> None:
        """Remove the handler, close its file, and restore the table of names."""
        if self._handler is None:
            return
        handlers = logging.getLogger("torch.__trace").handlers
        if self._handler in handlers:
            handlers.remove(self._handler)
        self._handler.close()
        self._handler = None
        if self._names is not None:
            table = _names()
            if table is not None:
                table.clear()
                table.update(self._names)

    def settle(self, *, failed: bool) -> None:
        """Keep the trace only if the test failed."""
        self.stop()
        if not failed:
            shutil.rmtree(self.directory, ignore_errors=True)


def slug(nodeid: str) -> str:
    """Return a node id as the name of a directory: readable, and different for each id."""
    name = _UNSAFE.sub("_", nodeid).strip("._")[:120]
    return f"{name}-{hashlib.sha256(nodeid.encode()).hexdigest()[:8]}"


def _names() -> dict[Any, Any] | None:
    """Return torch's table of file names that its trace has already written out."""
    try:
        table = importlib.import_module("torch._logging.structured").INTERN_TABLE
    except (ImportError, AttributeError):
        return None
    return table if isinstance(table, dict) else None


def _forget_names() -> dict[Any, Any] | None:
    """Empty the table, so that this trace writes out its own names; return its old contents.

    The table stays as it is if the user has a trace of their own (``TORCH_TRACE``) that relies on
    it.
    """
    table = _names()
    if table is None or os.environ.get("TORCH_TRACE"):
        return None
    before = dict(table)
    table.clear()
    return before
