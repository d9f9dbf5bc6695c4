"""The fixture ``graph_budget``: a budget for any block of a test, or for the steps of a loop.

A block is ``watch``'s. ``Steps`` keeps one ``Measurement`` open for a whole loop. What each step
adds to its ``Record`` (``added_since``) is judged by limits, a ``Cap``, as ``watch`` does a block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from pytest_graphbreak.judging.totals import unknown_runs
from pytest_graphbreak.measuring.measure import Measurement
from pytest_graphbreak.measuring.watch import Seen, budget_error, judge, watch
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


class GraphBudget:
    """The fixture ``graph_budget``: a budget for any block of a test."""

    def __init__(self, root: Path, typed: Typed, note: Callable[[StepCounts], None]) -> None:
        """Make the fixture of one test. ``note`` gets the counts of each step."""
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


# A budget for the steps of a loop: ``with graph_budget.steps(warm=2) as steps:``.

_BEFORE: Final = "step before"
"""Who set the limits of a step's runs, in words."""
_NO_GRAPHS: Final = Cap(every=0, by="warmed-up loop")
"""What holds for graphs once the steps are warm."""


class Steps(AbstractContextManager["Steps"]):
    """Steps that should compile once and run alike from then on.

    After ``warm`` steps no graph may be made, in a step or between two. Each later step must run
    compiled graphs, and read values, as often as the one before: with ``warm=2`` the steps 1 and 2
    may do anything, 3 makes no graph, and 4 runs like 3. ``note`` gets the counts of each step as
    it ends.
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
        return _LoopStep(self._measurement, self._end_step)

    def _end_step(self, before: Record) -> None:
        """Judge the step that ends now; ``before`` is what was seen when it began.

        With ``warm=2``::

            steps 1 and 2    not judged; what was seen at the end of 2 is ``_settled``
            step 3           no graph since the end of 2, none in the step
            step 4           no graph since the end of 3, none in the step; it runs like 3
        """
        __tracebackhide__ = True
        record = self._measurement.peek()
        step = added_since(record, before)
        self.counts.append(StepCounts(step.graphs, step.executions, step.reads))
        if self._note is not None:
            self._note(self.counts[-1])
        number, settled = len(self.counts), self._settled
        if number >= self._warm:
            self._settled = record  # from the end of the last warm step on nothing is compiled
        if number <= self._warm:
            return
        if settled is not None:
            self._judge(added_since(before, settled), _NO_GRAPHS, f"before step {number}")
        self._judge(step, _NO_GRAPHS, f"step {number}")
        if number > self._warm + 1:  # the first step after the warm ones has none to run like
            self._judge_runs(step, self.counts[-2])

    def _judge_runs(self, step: Record, last: StepCounts) -> None:
        """Judge whether a step ran compiled graphs, and read values, as often as the last one."""
        __tracebackhide__ = True
        number = len(self.counts)
        # Runs of a child process that lives on are not known. ``unknown_runs`` says so where there
        # is a limit on runs: this one only asks, and its zeros are compared with nothing.
        if unknown := unknown_runs(step, Cap(executions=0, reads=0)):
            step = replace(step, errors=(*step.errors, unknown))
        executions = _known(last.executions)
        limits = Cap(executions=executions, reads=_known(last.reads), by=_BEFORE)
        self._judge(step, limits, f"step {number}")
        _raise_if_fewer(number, executions, step)

    def _judge(self, record: Record, cap: Cap, which: str) -> None:
        __tracebackhide__ = True
        judgement = judge(record, cap, self._typed)
        if judgement.fails:
            first, *others = judgement.lines
            lines = [replace(first, text=f"{which}: {first.text}"), *others]
            raise budget_error(replace(judgement, lines=lines))


class _LoopStep(AbstractContextManager[None]):
    """One step. It has one frame only, which pytest does not show.

    A function with ``@contextmanager`` would have frames of ``contextlib`` as well, and pytest
    would show these in the traceback of a step that fails.
    """

    def __init__(self, measurement: Measurement, end: Callable[[Record], None]) -> None:
        self._measurement = measurement
        self._end = end

    def __enter__(self) -> None:
        self._before = self._measurement.peek()

    def __exit__(self, kind: type[BaseException] | None, *failure: object) -> None:
        __tracebackhide__ = True
        if kind is None:
            self._end(self._before)


def _known(counts: Mapping[str, int | None]) -> dict[str, int]:
    """Return counts without those that are None, which are not known."""
    return {layer: count for layer, count in counts.items() if count is not None}


def _raise_if_fewer(number: int, before: Mapping[str, int], step: Record) -> None:
    """Raise ``BudgetExceeded`` for fewer runs than before: something is no longer compiled.

    Fewer reads are no failure: the step only waits for the device less often.
    """
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
