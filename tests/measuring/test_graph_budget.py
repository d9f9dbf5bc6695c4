"""Steps of a loop: warm ones compile, those that follow make no graph and run alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from pytest_graphbreak import BudgetExceeded  # noqa: E402
from pytest_graphbreak.measuring.graph_budget import Steps  # noqa: E402
from pytest_graphbreak.model.report import StepCounts  # noqa: E402

pytestmark = pytest.mark.once


@pytest.fixture(autouse=True)
def _cold() -> None:
    torch._dynamo.reset()


def block(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) + 1


def loop(step: Callable[[int], object], count: int, between: int | None = None) -> list[StepCounts]:
    """The counts of so many steps, one of them warm; ``between`` runs a step outside of one."""
    with Steps(1, Path(__file__).parents[2]) as steps:
        for number in range(1, count + 1):
            if number == between:
                step(number)
            with steps.step():
                step(number)
    return steps.counts


def test_steps_that_run_alike_pass_and_are_counted() -> None:
    compiled = torch.compile(block, backend="eager")
    counts = loop(lambda number: [compiled(torch.ones(3)) for _ in range(2)], 4)
    assert [one.graphs for one in counts] == [{"dynamo": 1}, {}, {}, {}]
    assert {one.executions["dynamo"] for one in counts} == {2}


@pytest.mark.parametrize(
    ("between", "step"), [(None, "step 3: 1 dynamo graph"), (3, "before step 3: 1 dynamo graph")]
)
def test_a_graph_after_the_warm_steps_names_the_step_and_the_line(
    between: int | None, step: str
) -> None:
    compiled = torch.compile(block, backend="eager", dynamic=False)
    with pytest.raises(BudgetExceeded, match=rf"(?s){step}.*in block"):
        loop(lambda number: compiled(torch.ones(3 + number // 3)), 3, between)


def test_more_runs_than_in_the_step_before_name_the_line() -> None:
    compiled = torch.compile(block, backend="eager")
    expected = r"(?s)step 4: 3 dynamo executions, the step before allows 2 \(\+1\).*compiled\(x\)"
    x = torch.ones(3)
    with pytest.raises(BudgetExceeded, match=expected):
        loop(lambda number: [compiled(x) for _ in range(2 + number // 4)], 4)


def test_a_step_that_leaves_the_compiler_is_red() -> None:
    compiled = torch.compile(block, backend="eager")

    def step(number: int) -> None:
        with torch.compiler.set_stance("force_eager" if number == 3 else "default"):
            compiled(torch.ones(3))

    with pytest.raises(BudgetExceeded, match="step 3: 0 dynamo executions, the step before had 1"):
        loop(step, 3)


@pytest.mark.parametrize("warm", [-1, True, "2"])
def test_a_number_of_warm_steps_that_is_none_is_refused(warm: object) -> None:
    with pytest.raises(ValueError, match="not a count"):
        Steps(warm, Path())  # type: ignore[arg-type]
