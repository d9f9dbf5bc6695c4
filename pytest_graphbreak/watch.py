"""A budget around any piece of code, with or without pytest: ``observe()``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pytest_graphbreak import cap as caps
from pytest_graphbreak.measure import Measurement
from pytest_graphbreak.record import Record


class BudgetExceeded(AssertionError):
    """A block made more than its budget allows, or could not be seen."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A live view of what has been observed since the block began.

    ``graphs`` and ``recompiles`` are those of the deepest layer that made graphs,
    ``breaks`` the distinct breaking places of all layers. Everything else is
    under ``record``. After the block it keeps its last values.
    """

    _measurement: Measurement

    @property
    def record(self) -> Record:
        return self._measurement.peek()

    @property
    def graphs(self) -> int:
        record = self.record
        return record.graphs.get(record.headline, 0)

    @property
    def recompiles(self) -> int:
        record = self.record
        return record.recompiles.get(record.headline, 0)

    @property
    def breaks(self) -> int:
        return len(self.record.breaks)


@contextmanager
def watch(max_graphs: int | None = None, *, root: Path, **limits: int) -> Iterator[Seen]:
    """Watch the block; at its end raise ``BudgetExceeded`` if it went over.

    ``max_graphs`` holds for every layer; ``limits`` are those of the marker
    (``dynamo``, ``xla``, ``tt``, ``recompiles``, ``breaks``). Raises
    ``CapError`` (a ``ValueError``) for a limit it does not know. An exception
    of the block itself is never replaced.
    """
    cap = None
    if max_graphs is not None or limits:
        positional = () if max_graphs is None else (max_graphs,)
        cap = caps.parse(positional, limits, "graph_budget")
    measurement = Measurement(root)
    try:
        yield Seen(measurement)
    except BaseException:
        measurement.close()
        raise
    record = measurement.close()
    if cap is not None:
        _enforce(record, cap)


@contextmanager
def observe(max_graphs: int | None = None, **limits: int) -> Iterator[Seen]:
    """Watch a block of any program, without pytest; files are named from the current directory.

    >>> with observe(max_graphs=1) as seen:  # doctest: +SKIP
    ...     compiled(x)
    >>> seen.graphs  # doctest: +SKIP
    1
    """
    with watch(max_graphs, root=Path.cwd(), **limits) as seen:
        yield seen


def _enforce(record: Record, cap: caps.Cap) -> None:
    from pytest_graphbreak.report.text import block_failure
    from pytest_graphbreak.verdict import judge

    verdict = judge(record, None, cap)
    if verdict.fails:
        raise BudgetExceeded(block_failure(verdict, record))
