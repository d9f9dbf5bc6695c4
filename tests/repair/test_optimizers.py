"""Optimizers that were compiled run without the compiler again, as the reference needs it."""

from __future__ import annotations

import pytest
import torch

from pytest_graphbreak.repair import optimizers

pytestmark = pytest.mark.once


def test_what_was_set_by_the_compiler_is_set_back() -> None:
    weight = torch.ones(2, requires_grad=True)
    opt = torch.optim.Adam([weight])
    opt.param_groups[0]["capturable"] = True
    optimizers.restore([weight, opt])
    assert opt.param_groups[0]["capturable"] is False
    weight.grad = torch.ones(2)
    opt.step()
