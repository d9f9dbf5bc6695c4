"""How many graphs the PJRT client compiled: the ``CompileTime`` metric, kept honest.

The metric is read, never cleared. When the user's code clears it inside a
window, what it had counted is kept; when it was cleared behind our back, that
is noticed by its samples, and said.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pytest_graphbreak.layers.hooks import Patch, beside
from pytest_graphbreak.layers.xla import private as native

CLEARED = (
    "torch_xla's metrics were cleared by a way that could not be followed, "
    "so the graphs before it are lost: clear them by torch_xla.debug.metrics, or not at all"
)


class Meter:
    """The count of this process. One for all windows, since the metric is one for all."""

    def __init__(self) -> None:
        self._kept = 0
        self._own = 0
        self._seen = native.Compiles(0, ())
        self._patch: Patch | None = None
        self.gaps = 0
        """How often the metric was cleared without our seeing how much it had counted."""

    def total(self) -> int:
        """Graphs compiled so far but for our own. Only differences have a meaning."""
        after = native.compiles()
        if not _continues(self._seen, after):
            self.gaps += 1
        self._seen = after
        return after.graphs + self._kept - self._own

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """What is compiled inside is our own doing."""
        before = self.total()
        try:
            yield
        finally:
            self._own += self.total() - before

    @property
    def attached(self) -> bool:
        """Whether a clearing of the metrics would be noticed."""
        return self._patch is not None

    def attach(self) -> None:
        """Keep what was counted when the metrics are cleared. Raises ``MissingName``."""
        if not self.attached and native.loaded():
            native.function("_clear_xla_metrics")
            hook = beside(lambda args: self._keep())
            self._patch = Patch(native.binding(), "_clear_xla_metrics", hook)

    def detach(self) -> None:
        if self._patch is not None:
            self._patch.remove()
            self._patch = None

    def _keep(self) -> None:
        try:
            self.total()
        except Exception:  # the user's call must go through; the next total() tells of it
            return
        self._kept += self._seen.graphs
        self._seen = native.Compiles(0, ())


def _continues(before: native.Compiles, after: native.Compiles) -> bool:
    """Whether ``now`` can have come from ``before`` by compiling alone.

    The metric keeps its latest 1024 samples, each with a time of its own: the
    last one seen must still be where it was.
    """
    if after.graphs < before.graphs:
        return False
    if not before.graphs:
        return True
    position = len(after.samples) - 1 - (after.graphs - before.graphs)
    return position < 0 or after.samples[position] == before.samples[-1]
