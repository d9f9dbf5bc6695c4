"""Notifies a listener when something was compiled: a child process reports it at once.

In the process of the test nobody listens, and this costs an empty call.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from pytest_graphbreak.model.items import LineRuns
from pytest_graphbreak.model.places import Places


class Listener:
    """A listener that the sensors call while torch compiles. None of its methods may raise.

    This one does nothing.
    """

    def on_begin(self) -> None:
        """Note that a compilation begins in this thread."""

    def on_end(self) -> None:
        """Note that the compilation that began last in this thread has ended."""

    def on_event(self) -> None:
        """Note that something was noted outside of such a compilation."""

    def on_run(self, compiled: CountedFunction, key: Any) -> None:
        """Note that a compiled function was called.

        ``key`` identifies the line that called it and the thread, as ``executions`` makes it. A
        step of a model waits for this, so it must be cheap.
        """


class CountedFunction(Protocol):
    """A compiled function whose runs are counted."""

    def line(self, key: Any, places: Places) -> LineRuns:
        """Return one run of it, with the line that ``key`` identifies."""


NOBODY: Final = Listener()


class Notifier:
    """A holder of at most one listener at a time."""

    listener: Listener = NOBODY


NOTIFIER = Notifier()
"""The one of this process: ``children.process`` and ``measuring.watched`` set its listener."""
