"""Programs of the CPU that are moved to an XLA device for a measurement."""

from __future__ import annotations

import ast

import pytest

from cases.moved import on_xla
from cases.training import SCRIPTS

pytestmark = pytest.mark.once

PLAIN = """\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
f = torch.compile(model, backend="eager")
for _ in range(2):
    f(torch.ones(3, 2))
"""

MOVED = """\
import torch
from torch import nn
import torch_xla

device = torch_xla.device()

model = nn.Sequential(nn.Linear(2, 2), nn.ReLU()).to(device)
f = torch.compile(model, backend="openxla")
for _ in range(2):
    f(torch.ones(3, 2, device=device))
    torch_xla.sync()
"""


def test_tensors_and_modules_are_on_the_device() -> None:
    assert on_xla(PLAIN) == MOVED


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_training_script_is_moved(name: str) -> None:
    moved = on_xla(SCRIPTS[name][1])
    ast.parse(moved)
    assert "device = torch_xla.device()" in moved
    assert "eager" not in moved.replace("eagerly", "")
