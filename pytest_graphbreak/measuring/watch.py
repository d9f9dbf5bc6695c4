"""A budget around any piece of code, with or without pytest: ``with observe(max_graphs=1):``.

``observe`` is for any program. ``watch`` is the same for the fixture ``graph_budget`` and for steps
of a loop (``graph_budget``), which know the root of the checkout and how pytest was started. Both
open a ``Measurement``, the observers of all layers, for the time of a block. The block yields a
``Seen``, which shows the counts. At its end the ``Record`` of what was seen is judged by the
limits, a ``Cap``, and a ``Judgement`` that fails becomes a ``BudgetExceeded``.

``judge`` imports what judges and reports: a program that only looks needs neither.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from pytest_graphbreak.judging import cap as caps
from pytest_graphbreak.judging.totals import unknown_runs
from pytest_graphbreak.measuring import absent
from pytest_graphbreak.measuring.measure import Measurement
from pytest_graphbreak.model.budget import Cap
from pytest_graphbreak.model.record import Record

if TYPE_CHECKING:
    from typing_extensions import Unpack  # in `typing` from Python 3.11 on

    from pytest_graphbreak.config.typed import Typed
    from pytest_graphbreak.judging.cap import Limits
    from pytest_graphbreak.judging.judgement import Judgement
    from pytest_graphbreak.model.forms import Plain


class BudgetExceeded(AssertionError):
    """Raised at the end of a block that made more than its budget allows, or could not be seen."""

    __module__ = "pytest_graphbreak"  # people import it from there, so tracebacks name that

    def __init__(self, message: str = "", entry: Plain | None = None) -> None:
        super().__init__(message)
        self.entry = entry or {}
        """What the block counted and how it was judged, in the shape of a test of the report."""

    @property
    def lines(self) -> list[list[Any]]:
        """The parts of the message (``text.output.pack``), for code that prints it."""
        lines: list[list[Any]] = self.entry.get("lines", [])
        return lines


def budget_error(judgement: Judgement) -> BudgetExceeded:
    """Return the error of a block that fails by this judgement."""
    entry = {"record": judgement.case.record.to_dict(), **judgement.to_dict(), "block": True}
    return BudgetExceeded(judgement.message or "", entry)


class Counts(ABC):
    """The counts of a record: of a block (``Seen``), or of what a fixture ran (``compile_model``).

    A Struct cannot have an abstract base class.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def record(self) -> Record: ...

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


@dataclass(frozen=True, slots=True)
class Seen(Counts):
    """A live view of what has been observed since the block began.

    ``graphs`` and ``recompiles`` are those of the deepest layer that made graphs,
    ``breaks`` the distinct graph breaks of all layers. Everything else is
    under ``record``. After the block it keeps its last values.
    """

    _measurement: Measurement

    @property
    def record(self) -> Record:
        return self._measurement.peek()

    def __repr__(self) -> str:
        """Return what pytest shows below a failed ``assert seen.graphs == 1``."""
        return f"Seen(graphs={self.graphs}, recompiles={self.recompiles}, breaks={self.breaks})"


def watch(
    max_graphs: int | None = None,
    *,
    root: Path,
    typed: Typed | None = None,
    **limits: Unpack[Limits],
) -> AbstractContextManager[Seen]:
    """Watch a block; at its end raise ``BudgetExceeded`` if it went over.

    ``max_graphs`` holds for every layer; ``limits`` are those of the marker
    (``dynamo``, ``xla``, ``tt``, ``recompiles``, ``breaks``). Raises
    ``CapError`` (a ``ValueError``) at once for a limit it does not know. An
    exception of the block itself is never replaced. ``typed`` is how pytest was started.
    """
    cap = None
    if max_graphs is not None or limits:
        positional = () if max_graphs is None else (max_graphs,)
        cap = caps.parse(positional, dict(limits), "graph_budget", by="block")
    return _Block(cap, root, typed)


def observe(
    max_graphs: int | None = None, **limits: Unpack[Limits]
) -> AbstractContextManager[Seen]:
    """Watch a block of any program, without pytest; files are named from the current directory.

    Takes what ``@pytest.mark.max_graphs`` takes, or nothing to only look. Raises
    ``CapError`` (a ``ValueError``) at once for a limit it does not know, and
    ``BudgetExceeded`` at the end of a block that went over.

    >>> with observe(max_graphs=1) as seen:  # doctest: +SKIP
    ...     compiled(x)
    >>> seen.graphs  # doctest: +SKIP
    1
    """
    return watch(max_graphs, root=Path.cwd(), **limits)


class _Block(AbstractContextManager[Seen]):
    """A window from ``with`` to its end.

    A class, no generator with ``contextmanager``: that would raise through frames of contextlib,
    which pytest shows. ``__exit__`` is one frame, which it hides.
    """

    def __init__(self, cap: Cap | None, root: Path, typed: Typed | None) -> None:
        self._cap = cap
        self._root = root
        self._typed = typed

    def __enter__(self) -> Seen:
        self._measurement = Measurement(self._root)
        return Seen(self._measurement)

    def __exit__(self, kind: type[BaseException] | None, *failure: object) -> None:
        __tracebackhide__ = True
        record = self._measurement.close()
        if kind is not None or self._cap is None:
            return
        # A compilation that a child process has not finished is a note in the report of a test. A
        # block that passes says nothing, so that nobody would read its notes: here it is an error.
        record = replace(record, errors=(*record.errors, *self._measurement.unfinished))
        judgement = judge(record, self._cap, self._typed)
        if judgement.fails:
            raise budget_error(judgement)


def judge(record: Record, cap: Cap, typed: Typed | None) -> Judgement:
    """Return the judgement of a block by its limits, with the lines of the failure if it fails."""
    from pytest_graphbreak.config.typed import this_command
    from pytest_graphbreak.judging.judgement import Case, judgement

    # A limit on a layer that cannot make graphs here, or on runs that were not counted, proves
    # nothing where it is kept.
    why_not = absent.cap_impossible(cap, record.layers) or unknown_runs(record, cap)
    if why_not and not record.errors:
        record = replace(record, errors=(f"{why_not}, so it cannot be judged",))
    judged = judgement(Case(record, cap=cap))
    if not judged.fails:
        return judged
    from pytest_graphbreak.report.failure import block_failure

    return replace(judged, lines=block_failure(judged, typed or this_command()))
