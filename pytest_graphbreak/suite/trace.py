"""``--graph-budget-trace=DIR``: torch's structured trace of each test that failed.

The trace is what ``TORCH_TRACE`` writes, in a directory for each test, ready for
``tlparse``. A test that passed leaves nothing. torch's own handler does the
writing; it hangs on the logger for the call phase only, and is taken off again.

Tracing costs time (see ``docs/how-to/mend-a-red-test.md``), and changes no
count: Dynamo compiles the same, it only tells more.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import os
import re
import shutil
from pathlib import Path
from typing import Any

_UNSAFE = re.compile(r"[^\w.=-]+")


class Trace:
    """The trace of one test. ``start`` before the call, ``stop`` after it, then ``settle``."""

    def __init__(self, directory: Path, nodeid: str) -> None:
        self.directory = directory / slug(nodeid)
        self._handler: logging.Handler | None = None
        self._names: dict[Any, Any] | None = None

    def start(self) -> None:
        """Forget what an earlier attempt left, and begin. Without torch nothing happens."""
        shutil.rmtree(self.directory, ignore_errors=True)
        try:
            logs = importlib.import_module("torch._logging._internal")
            handler = logs.LazyTraceHandler(str(self.directory))
            handler.setFormatter(logs.TorchLogsFormatter(trace=True))
        except (ImportError, AttributeError, TypeError):
            return
        self._names = _forget_names()
        self._handler = handler
        # First, since torch's own handler takes itself off the list in the middle of a call.
        logging.getLogger("torch.__trace").handlers.insert(0, handler)

    def stop(self) -> None:
        """Take the handler off, close its file, put the table of names back."""
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
        """Keep the trace of a test that failed."""
        self.stop()
        if not failed:
            shutil.rmtree(self.directory, ignore_errors=True)


def slug(nodeid: str) -> str:
    """A node id as the name of a directory: readable, and another for each id."""
    name = _UNSAFE.sub("_", nodeid).strip("._")[:120]
    return f"{name}-{hashlib.sha256(nodeid.encode()).hexdigest()[:8]}"


def _names() -> dict[Any, Any] | None:
    """torch's table of file names that its trace has spelled out already."""
    try:
        table = importlib.import_module("torch._logging.structured").INTERN_TABLE
    except (ImportError, AttributeError):
        return None
    return table if isinstance(table, dict) else None


def _forget_names() -> dict[Any, Any] | None:
    """Empty the table, so that this trace spells out its own; what was in it.

    A trace of the user's own (``TORCH_TRACE``) counts on the table: then it stays.
    """
    table = _names()
    if table is None or os.environ.get("TORCH_TRACE"):
        return None
    before = dict(table)
    table.clear()
    return before
