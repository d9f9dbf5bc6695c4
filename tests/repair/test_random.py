"""Random numbers in compiled code: no patch draws more of them, or in another order."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench
from tests.repair.test_fix import NEWER, search

pytestmark = pytest.mark.once

AUGMENT = """\
import random
import torch

random.seed(0)


def augment(x):
    if random.random() < 0.5:
        x = x.flip(-1)
    y = x * 2 if random.random() > 0.8 else x + 1
    y = y * random.random()
    return y.sin()


augment = torch.compile(augment, backend="eager")
for _ in range(6):
    print(augment(torch.arange(4.0)))
print(random.random())
"""


@pytest.mark.nightly  # the remedies refuse what draws, in tests of their own
@pytest.mark.skipif(not NEWER, reason="older versions of PyTorch trace random.random()")
def test_numbers_are_drawn_as_often_and_in_the_same_order(tmp_path: Path, shared: Bench) -> None:
    """What one side of a branch draws is not drawn for the other."""
    target = Target(tmp_path / "b.py")
    target.path.write_text(AUGMENT.replace("else x + 1", "else x + random.random()"))
    out = search(target, shared)
    assert not out.comparison.words
    assert list(out.last.lines) == list(out.first.lines)


NOISE = """\
import numpy as np
import torch

np.random.seed(0)
rng = np.random.RandomState(1)
weight = torch.ones(6, 6, requires_grad=True)


def crop(x, size):
    top = np.random.randint(0, x.shape[0] - size + 1)
    left = np.random.randint(x.shape[1] - size + 1)
    return x[top : top + size, left : left + size]


def loss(x):
    share = np.random.beta(0.4, 0.4)
    if np.random.rand() < 0.5:
        x = x.flip(-1)
    x = share * x + (1 - share) * x.t() + rng.normal(0, 0.1)
    return (crop(x @ weight, 4) * np.random.uniform(0.8, 1.2)).sum()


loss = torch.compile(loss, backend="aot_eager")
for _ in range(5):
    found = loss(torch.arange(36.0).reshape(6, 6))
    found.backward()
    print(found.item(), weight.grad.sum().item())
print(np.random.rand(), rng.rand())
"""


@pytest.mark.nightly  # the search tries all it has
@pytest.mark.skipif(not NEWER, reason="older versions of PyTorch break at other places")
def test_a_line_that_draws_is_not_moved_after_the_graph(tmp_path: Path, shared: Bench) -> None:
    target = Target(tmp_path / "e.py")
    line = "print('noise', np.random.rand())\n    share"
    target.path.write_text(NOISE.replace("share = ", f"{line} = ", 1))
    out = search(target, shared)
    assert not out.comparison.words
    assert not any("after the graph" in patch.title for patch in out.patches)
