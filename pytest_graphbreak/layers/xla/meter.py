"""Reads torch_xla's metrics, and keeps what they counted where the user's code clears them.

``CompileTime`` are the graphs that the PJRT client compiled, ``ExecuteTime`` and
``ExecuteReplicatedTime`` (SPMD) the runs of graphs, ``TransferFromDeviceTime`` the values that the
host waited for. They are read, never cleared. When the user's code clears them inside a window,
what they had counted is kept; when they were cleared without our notice, the samples of
``CompileTime`` show that, and it is reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from pytest_graphbreak.layers.hooks import Patch, RuntimePatch, do_nothing
from pytest_graphbreak.layers.xla import private as native

CLEARED: Final = (
    "torch_xla's metrics were cleared by a way that could not be followed, "
    "so the graphs before it are lost: clear them by torch_xla.debug.metrics, or not at all"
)


class Runs(NamedTuple):
    """How often graphs ran, and how often the host waited for values."""

    executions: int = 0
    reads: int = 0


class Meter:
    """The counts of this process. There is one for all windows, since the metrics are one.

    All counts are those up to now: only differences have a meaning.
    """

    def __init__(self) -> None:
        self._cleared = 0
        """The graphs that the metric had counted when the user's code cleared it."""
        self._cleared_runs = Runs()
        """What the other metrics had counted then."""
        self._excluded = 0
        """The graphs that we caused."""
        self._seen = native.Compiles(0, ())
        self._patch: Patch | None = None
        self.missed_clearings = 0
        """How often the metric was cleared before its last value could be read."""

    def total(self) -> int:
        """Return the graphs compiled so far, without our own."""
        after = native.compiles()
        if not _continues(self._seen, after):
            self.missed_clearings += 1
        self._seen = after
        return after.graphs + self._cleared - self._excluded

    def latest(self, number: int) -> list[float | None]:
        """Return the seconds of the latest compilations at the last count; None if unknown.

        ``number`` of them, at least one.
        """
        sampled = [took / 1e9 for _, took in self._seen.samples[-number:]]
        return [*[None] * (number - len(sampled)), *sampled]

    def runs(self) -> Runs:
        """Return what ran and was read so far; what still runs at a clearing comes later."""
        ran = native.samples("ExecuteTime") + native.samples("ExecuteReplicatedTime")
        read = native.samples("TransferFromDeviceTime")
        return Runs(self._cleared_runs.executions + ran, self._cleared_runs.reads + read)

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
                native.binding(), "_clear_xla_metrics", self._keep_counts, None, do_nothing
            )

    def detach(self) -> None:
        if self._patch is not None:
            self._patch.remove()
            self._patch = None

    def _keep_counts(self, args: tuple[Any, ...]) -> None:
        self.total()  # this reads ``_seen``, and may find that a clearing was missed
        self._cleared += self._seen.graphs
        self._seen = native.Compiles(0, ())
        self._cleared_runs = self.runs()


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
