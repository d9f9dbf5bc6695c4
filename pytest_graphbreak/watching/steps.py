"""A budget for the steps of a loop: ``with graph_budget.steps(warm=2) as steps:``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_graphbreak.layers.children.records import since
from pytest_graphbreak.model.budget import Cap
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.report import StepCounts
from pytest_graphbreak.text.numbers import plural
from pytest_graphbreak.text.output import TextLine, packed, plain
from pytest_graphbreak.watching.measure import Measurement
from pytest_graphbreak.watching.watch import BudgetExceeded, Seen, judged, watch

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from pytest_graphbreak.config.typed import Typed
    from pytest_graphbreak.judging.cap import Limits

_WARM: Final = "warm step"
_BEFORE: Final = "step before"


class Steps(AbstractContextManager["Steps"]):
    """Steps that are to compile once and to run alike from then on.

    What comes after ``warm`` steps makes no graph, in a step or between two. Each of these steps
    runs compiled graphs, and reads values, as often as the one before. ``note`` gets the counts of
    each step as it ends.
    """

    def __init__(
        self,
        warm: int,
        root: Path,
        typed: Typed | None = None,
        note: Callable[[StepCounts], None] | None = None,
    ) -> None:
        """Raises ``ValueError`` for a number of warm steps that is none."""
        if isinstance(warm, bool) or not isinstance(warm, int) or warm < 0:
            raise ValueError(f"steps: warm={warm!r} is not a count")
        self.counts: list[StepCounts] = []
        self._warm = warm
        self._root = root
        self._typed = typed
        self._note = note
        self._settled: Record | None = None

    def __enter__(self) -> Steps:
        self._measurement = Measurement(self._root)
        return self

    def __exit__(self, kind: type[BaseException] | None, *failure: object) -> None:
        __tracebackhide__ = True
        record = self._measurement.close()
        if kind is None and self._settled is not None:
            between = since(record, self._settled)
            self._judge(between, Cap(every=0, by=_WARM), f"after step {len(self.counts)}")

    def step(self) -> AbstractContextManager[None]:
        """One step of the loop; at its end it is judged. Raises ``BudgetExceeded`` there."""
        return _LoopStep(self)

    def _begin(self) -> Record:
        return self._measurement.peek()

    def _end(self, before: Record) -> None:
        __tracebackhide__ = True
        record = self._measurement.peek()
        step, number = since(record, before), len(self.counts) + 1
        known = self.counts[-1] if number > self._warm + 1 else None
        between = since(before, self._settled) if self._settled is not None else None
        counts = StepCounts(step.graphs, step.executions, step.reads)
        self.counts.append(counts)
        if self._note is not None:
            self._note(counts)
        if number >= self._warm:
            self._settled = record
        if number <= self._warm:
            return
        if between is not None:
            self._judge(between, Cap(every=0, by=_WARM), f"before step {number}")
        self._judge(step, Cap(every=0, by=_WARM), f"step {number}")
        if known is not None:
            limits = Cap(executions=known.executions, reads=known.reads, by=_BEFORE)
            self._judge(step, limits, f"step {number}")
            _less(number, known.executions, step.executions)

    def _judge(self, record: Record, cap: Cap, which: str) -> None:
        __tracebackhide__ = True
        found = judged(record, cap, self._typed)
        if found.fails:
            first, *rest = found.lines
            lines = [replace(first, text=f"{which}: {first.text}"), *rest]
            raise BudgetExceeded(plain(lines), packed(lines))


class BlockBudget:
    """The fixture ``graph_budget`` of one test. ``note`` gets the counts of each step."""

    def __init__(self, root: Path, typed: Typed, note: Callable[[StepCounts], None]) -> None:
        self._root = root
        self._typed = typed
        self._note = note

    def __call__(
        self, max_graphs: int | None = None, **limits: Unpack[Limits]
    ) -> AbstractContextManager[Seen]:
        return watch(max_graphs, root=self._root, typed=self._typed, **limits)

    def steps(self, warm: int = 1) -> Steps:
        return Steps(warm, self._root, self._typed, self._note)


class _LoopStep(AbstractContextManager[None]):
    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def __enter__(self) -> None:
        self._before = self._steps._begin()

    def __exit__(self, kind: type[BaseException] | None, *failure: object) -> None:
        __tracebackhide__ = True
        if kind is None:
            self._steps._end(self._before)


def _less(number: int, before: Mapping[str, int], after: Mapping[str, int]) -> None:
    """Fewer runs than in the step before: some of it is not compiled any more."""
    __tracebackhide__ = True
    for layer, count in before.items():
        now = after.get(layer, 0)
        if now < count:
            ran = plural(now, f"{layer} execution")
            words = f"step {number}: {ran}, the step before had {count}"
            lines = [
                TextLine(words, "headline", head="graph budget: "),
                TextLine("some of what ran compiled runs without the compiler now", indent=2),
            ]
            raise BudgetExceeded(plain(lines), packed(lines))
