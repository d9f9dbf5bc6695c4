"""Which sizes vary, as the calls show it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pytest_graphbreak.repair.calls import CompiledCall, Shapes, shapes_of, varying

pytestmark = pytest.mark.once


class Model(torch.nn.Module):
    def forward(self, x: Any, *rest: Any, **named: Any) -> None:
        pass


def call(size: int) -> Shapes:
    return {"x": (4, size), "y": (size, size), "z": (4,)}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_tensors_are_named_as_the_function_names_them() -> None:
    args = (torch.ones(1, 2), torch.ones(3), torch.ones(4))
    nested = torch.nested.nested_tensor([torch.ones(1), torch.ones(2)])  # it has no shape
    kwargs = {"batch": {"ids": torch.ones(5), "nested": nested}, "flag": True}
    shapes = {"x": (1, 2), "rest[0]": (3,), "rest[1]": (4,), "batch['ids']": (5,)}
    assert shapes_of(Model(), args, kwargs) == shapes
    assert CompiledCall(Model(), len).name == "Model"
    assert shapes_of(lambda args: args, [torch.ones(2)], {}) == {"args": (2,)}


def test_only_what_differs_between_calls_varies() -> None:
    assert varying([call(3), call(9), call(5)]) == {"x": [1], "y": [0, 1]}
    assert varying([call(3), call(3)]) == {}
    assert varying([]) == {}


def test_what_is_not_in_all_calls_or_changes_its_rank_is_left_out() -> None:
    other: Shapes = {"x": (4, 5, 1), "z": (4,)}
    assert varying([call(3), other]) == {}
