"""The number of graphs that the PJRT client compiled: torch_xla's ``CompileTime``, corrected.

The metric is read, never cleared. When the user's code clears it inside a window, what it had
counted is kept; when it was cleared without our notice, its samples show that, and it is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from pytest_graphbreak.layers.hooks import Patch, RuntimePatch, do_nothing
from pytest_graphbreak.layers.xla import private as native

CLEARED: Final = (
    "torch_xla's metrics were cleared by a way that could not be followed, "
    "so the graphs before it are lost: clear them by torch_xla.debug.metrics, or not at all"
)


class Meter:
    """The count of this process. There is one for all windows, since there is one metric."""

    def __init__(self, before_clear: Callable[[], None]) -> None:
        """Begin to count; ``before_clear`` is called before the user's code clears the metrics."""
        self._before_clear = before_clear
        self._cleared = 0
        """The graphs that the metric had counted when the user's code cleared it."""
        self._excluded = 0
        """The graphs that we caused."""
        self._seen = native.Compiles(0, ())
        self._patch: Patch | None = None
        self.missed_clearings = 0
        """How often the metric was cleared before its last value could be read."""

    def total(self) -> int:
        """Return the graphs compiled so far, without our own. Only differences have a meaning."""
        after = native.compiles()
        if not _continues(self._seen, after):
            self.missed_clearings += 1
        self._seen = after
        return after.graphs + self._cleared - self._excluded

    def latest(self, number: int) -> list[float | None]:
        """Return the seconds of the latest compilations at the last count; None if unknown."""
        sampled = [took / 1e9 for _, took in self._seen.samples[-number:]]
        return [*[None] * (number - len(sampled)), *sampled]

    @contextmanager
    def exclude(self) -> Iterator[None]:
        """Leave out of the count what is compiled inside, since we cause it."""
        before = self.total()
        try:
            yield
        finally:
            self._excluded += self.total() - before

    @property
    def is_attached(self) -> bool:
        """Whether a clearing of the metrics would be noticed."""
        return self._patch is not None

    def attach(self) -> None:
        """Keep what was counted when the metrics are cleared. Raises ``MissingName``."""
        if not self.is_attached and native.is_loaded():
            native.function("_clear_xla_metrics")  # raises MissingName
            self._patch = RuntimePatch(
                native.binding(), "_clear_xla_metrics", self._keep_count, None, do_nothing
            )

    def detach(self) -> None:
        if self._patch is not None:
            self._patch.remove()
            self._patch = None

    def _keep_count(self, args: tuple[Any, ...]) -> None:
        self._before_clear()
        self.total()  # this reads ``_seen``, and may find that a clearing was missed
        self._cleared += self._seen.graphs
        self._seen = native.Compiles(0, ())


def _continues(before: native.Compiles, after: native.Compiles) -> bool:
    """Return whether ``after`` can have come from ``before`` by compiling alone.

    The metric keeps its latest 1024 samples, each with a time of its own: the
    last one seen must still be where it was. After 3 graphs with the samples ``a b c``, those of 5
    have ``c`` two places before their end: ``a b c d e``.
    """
    if after.graphs < before.graphs:
        return False
    if not before.graphs:
        return True
    position = len(after.samples) - 1 - (after.graphs - before.graphs)
    return position < 0 or after.samples[position] == before.samples[-1]
