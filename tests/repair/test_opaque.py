"""The custom op around a function: what it gives, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from pytest_graphbreak.repair.remedies.programs import OPERATOR

Tensors = Callable[..., torch.Tensor]


@pytest.fixture(scope="module")
def source() -> dict[str, Any]:
    """The helper as it is in a patched file; ops are named once in a process."""
    space: dict[str, Any] = {"torch": torch}
    exec(OPERATOR.source, space)
    return space


def compiled(function: Tensors) -> Tensors:
    torch._dynamo.reset()
    found: Tensors = torch.compile(function, backend="aot_eager", fullgraph=True)
    return found


def test_it_runs_as_it_is_each_time(source: dict[str, Any]) -> None:
    seen: list[float] = []

    def helper(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        seen.append(x.sum().item())
        return x * len(seen) + y

    op = source["_graphbreak_op"](helper)
    run = compiled(lambda x: op(x, y=x.cos()) * 2)
    x = torch.ones(3)
    for count in (1, 2):
        assert torch.equal(run(x), (x * count + x.cos()) * 2)
    assert seen == [3.0, 3.0]


def test_it_runs_as_often_as_it_is_called(source: dict[str, Any]) -> None:
    """Also twice with one argument, and where nobody uses the result."""
    seen: list[int] = []

    def helper(x: torch.Tensor) -> torch.Tensor:
        seen.append(1)
        return x * len(seen)

    op = source["_graphbreak_op"](helper)

    def model(x: torch.Tensor) -> torch.Tensor:
        op(x)
        return op(x) + op(x)

    assert compiled(model)(torch.ones(1)).item() == 2 + 3
    assert len(seen) == 3


def test_a_result_without_dimensions_has_its_own_op(source: dict[str, Any]) -> None:
    op = source["_graphbreak_scalar_op"](lambda x: torch.tensor(sum(x.tolist())))
    assert compiled(lambda x: op(x) + 1)(torch.ones(3)).item() == 4.0


def test_what_is_not_a_number_is_not_taken_for_a_change(source: dict[str, Any]) -> None:
    op = source["_graphbreak_op"](lambda x: x * 2)
    assert compiled(lambda x: op(x))(torch.tensor([float("nan")])).isnan().all()


def test_a_result_that_is_an_argument_is_a_copy(source: dict[str, Any]) -> None:
    op = source["_graphbreak_op"](lambda x: x)
    x = torch.ones(3)
    assert compiled(lambda x: op(x))(x).data_ptr() != x.data_ptr()


@pytest.mark.parametrize(
    ("helper", "words"),
    [
        (lambda x: x.sum(), "not of the shape"),
        (lambda x: x.double(), "not of the shape and dtype"),
        (lambda x: 3, "no tensor"),
        (lambda x: x.add_(1), "changes an argument"),
        (lambda x: [x, x.numpy().fill(0)][0], "changes an argument"),
    ],
)
def test_what_it_can_not_stand_for_is_refused(
    helper: Tensors, words: str, source: dict[str, Any]
) -> None:
    op = source["_graphbreak_op"](helper)
    with pytest.raises(TypeError, match=words):
        compiled(lambda x: op(x) + 1)(torch.ones(3))


def test_uncompiled_code_has_the_function_itself(source: dict[str, Any]) -> None:
    op = source["_graphbreak_op"](lambda x, by=2: x * by)
    x = torch.ones(3, requires_grad=True)
    op(x, by=3).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3.0] * 3


def test_a_gradient_that_is_not_known_is_an_error_and_no_zero(source: dict[str, Any]) -> None:
    op = source["_graphbreak_op"](lambda x: x * 2)
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(Exception, match="autograd"):
        compiled(lambda x: op(x))(x).sum().backward()
