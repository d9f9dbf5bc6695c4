"""Optimizers that were compiled run without the compiler again, as the reference needs it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pytest_graphbreak.repair import optimizers
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench
from tests.repair.test_fix import NEWER, search

pytestmark = pytest.mark.once

STEP = """\
import torch

torch.manual_seed(0)
net = torch.nn.Linear(3, 2)
opt = torch.optim.Adam(net.parameters(), lr=0.1)


@torch.compile(backend="eager")
def step(x):
    loss = net(x).square().mean()
    print("loss", round(loss.item(), 4))
    loss.backward()
    opt.step()
    opt.zero_grad()
    return loss.detach()


for _ in range(3):
    step(torch.randn(4, 3))
"""


def test_what_was_set_by_the_compiler_is_set_back() -> None:
    weight = torch.ones(2, requires_grad=True)
    opt = torch.optim.Adam([weight])
    opt.param_groups[0]["capturable"] = True
    optimizers.restore()
    assert opt.param_groups[0]["capturable"] is False
    weight.grad = torch.ones(2)
    opt.step()


@pytest.mark.nightly
@pytest.mark.skipif(not NEWER, reason="older versions of PyTorch break at other places")
def test_a_step_that_prints_keeps_what_it_trains(tmp_path: Path, shared: Bench) -> None:
    target = Target(tmp_path / "a.py")
    target.path.write_text(STEP)
    out = search(target, shared)
    assert not out.comparison.words
    assert "the line is written after the graph" in [patch.title for patch in out.patches]
    tried = [one.why for problem in out.problems for one in problem.tried]
    assert not [why for why in tried if "capturable" in why]
