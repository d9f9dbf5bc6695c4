"""A budget around any piece of code, with or without pytest: ``observe()``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from pytest_graphbreak.judging import cap as caps
from pytest_graphbreak.judging.totals import unknown_runs
from pytest_graphbreak.measuring import absent
from pytest_graphbreak.measuring.measure import Measurement
from pytest_graphbreak.model.budget import Cap
from pytest_graphbreak.model.differences import Difference
from pytest_graphbreak.model.merging import added_since
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.report import StepCounts
from pytest_graphbreak.text.numbers import plural
from pytest_graphbreak.text.output import TextLine

if TYPE_CHECKING:
    from typing_extensions import Unpack  # in `typing` from Python 3.11 on

    from pytest_graphbreak.config.typed import Typed
    from pytest_graphbreak.judging.cap import Limits
    from pytest_graphbreak.judging.judgement import Judgement
    from pytest_graphbreak.model.forms import Plain


class BudgetExceeded(AssertionError):
    """A block that made more than its budget allows, or could not be seen."""

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
    """The counts of a record. A Struct cannot have an abstract base class."""

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
    """A window from ``with`` to its end. It has one frame only, which pytest does not show."""

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
        # Nobody would read a note, since a block that passes says nothing: these are errors.
        record = replace(record, errors=(*record.errors, *self._measurement.unfinished))
        judgement = judge(record, self._cap, self._typed)
        if judgement.fails:
            raise budget_error(judgement)


def judge(record: Record, cap: Cap, typed: Typed | None) -> Judgement:
    """Return the judgement whether the block keeps to its budget."""
    from pytest_graphbreak.config.typed import this_command
    from pytest_graphbreak.judging.judgement import Case, judgement

    why_not = absent.cap_impossible(cap, record.layers) or unknown_runs(record, cap)
    if why_not and not record.errors:
        record = replace(record, errors=(f"{why_not}, so it cannot be judged",))
    judged = judgement(Case(record, cap=cap))
    if not judged.fails:
        return judged
    from pytest_graphbreak.report.failure import block_failure

    return replace(judged, lines=block_failure(judged, typed or this_command()))


# A budget for the steps of a loop: ``with graph_budget.steps(warm=2) as steps:``.

_BEFORE: Final = "step before"
_NO_GRAPHS: Final = Cap(every=0, by="warm step")


class Steps(AbstractContextManager["Steps"]):
    """Steps that should compile once and run alike from then on.

    After ``warm`` steps no graph may be made, in a step or between two. Each later step must run
    compiled graphs, and read values, as often as the one before. ``note`` gets the counts of each
    step as it ends.
    """

    def __init__(
        self,
        warm: int,
        root: Path,
        typed: Typed | None = None,
        note: Callable[[StepCounts], None] | None = None,
    ) -> None:
        """Prepare for ``warm`` steps. Raises ``ValueError`` if that is no count."""
        if isinstance(warm, bool) or not isinstance(warm, int) or warm < 0:
            raise ValueError(f"steps: warm={warm!r} is not a count")
        self.counts: list[StepCounts] = []
        self._warm = warm
        self._root = root
        self._typed = typed
        self._note = note
        self._settled: Record | None = None
        """What was seen when the last step ended, once the steps are warm."""

    def __enter__(self) -> Steps:
        self._measurement = Measurement(self._root)
        return self

    def __exit__(self, kind: type[BaseException] | None, *failure: object) -> None:
        __tracebackhide__ = True
        record = self._measurement.close()
        if kind is None and self._settled is not None:
            between = added_since(record, self._settled)
            self._judge(between, _NO_GRAPHS, f"after step {len(self.counts)}")

    def step(self) -> AbstractContextManager[None]:
        """Return one step of the loop, judged at its end. Raises ``BudgetExceeded`` there."""
        return _LoopStep(self)

    def _end_step(self, before: Record) -> None:
        """Judge the step that ends now; ``before`` is what was seen when it began."""
        __tracebackhide__ = True
        record = self._measurement.peek()
        step, number = added_since(record, before), len(self.counts) + 1
        # The first step after the warm ones has none that it has to run like.
        last = self.counts[-1] if number > self._warm + 1 else None
        between = None if self._settled is None else added_since(before, self._settled)
        counts = StepCounts(step.graphs, step.executions, step.reads)
        self.counts.append(counts)
        if self._note is not None:
            self._note(counts)
        if number >= self._warm:
            self._settled = record
        if number <= self._warm:
            return
        if between is not None:
            self._judge(between, _NO_GRAPHS, f"before step {number}")
        self._judge(step, _NO_GRAPHS, f"step {number}")
        if last is not None:
            if unknown := unknown_runs(step, Cap(executions=0, reads=0)):
                step = replace(step, errors=(*step.errors, unknown))
            limits = Cap(executions=_known(last.executions), reads=_known(last.reads), by=_BEFORE)
            self._judge(step, limits, f"step {number}")
            _raise_if_fewer(number, _known(last.executions), step)

    def _judge(self, record: Record, cap: Cap, which: str) -> None:
        __tracebackhide__ = True
        judgement = judge(record, cap, self._typed)
        if judgement.fails:
            first, *others = judgement.lines
            lines = [replace(first, text=f"{which}: {first.text}"), *others]
            raise budget_error(replace(judgement, lines=lines))


class GraphBudget:
    """The fixture ``graph_budget``: a budget for any block of a test."""

    def __init__(self, root: Path, typed: Typed, note: Callable[[StepCounts], None]) -> None:
        """Make that of one test. ``note`` gets the counts of each step."""
        self._root = root
        self._typed = typed
        self._note = note

    def __call__(
        self, max_graphs: int | None = None, **limits: Unpack[Limits]
    ) -> AbstractContextManager[Seen]:
        """Watch a block, as ``observe`` does; files are named from pytest's rootdir."""
        return watch(max_graphs, root=self._root, typed=self._typed, **limits)

    def steps(self, warm: int = 1) -> Steps:
        """Return a block for the steps of a loop: see ``Steps``."""
        return Steps(warm, self._root, self._typed, self._note)


class _LoopStep(AbstractContextManager[None]):
    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def __enter__(self) -> None:
        self._before = self._steps._measurement.peek()

    def __exit__(self, kind: type[BaseException] | None, *failure: object) -> None:
        __tracebackhide__ = True
        if kind is None:
            self._steps._end_step(self._before)


def _known(counts: Mapping[str, int | None]) -> dict[str, int]:
    return {layer: count for layer, count in counts.items() if count is not None}


def _raise_if_fewer(number: int, before: Mapping[str, int], step: Record) -> None:
    """Raise ``BudgetExceeded`` for fewer runs than before: something is no longer compiled."""
    __tracebackhide__ = True
    from pytest_graphbreak.judging.judgement import Case, Judgement
    from pytest_graphbreak.judging.verdict import Verdict

    for layer, count in before.items():
        now = step.executions.get(layer, 0) or 0
        if now < count:
            ran = plural(now, f"{layer} execution")
            words = f"step {number}: {ran}, the step before had {count}"
            lines = [
                TextLine(words, "headline", head="graph budget: "),
                TextLine("some of what ran compiled runs without the compiler now", indent=2),
            ]
            fewer = Difference(
                "execution", layer, total=True, before=count, after=now, by=_BEFORE, verdict="lost"
            )
            case = Case(step, cap=Cap(executions=before, by=_BEFORE))
            raise budget_error(Judgement(case, Verdict("lost", (fewer,)), lines=lines))
