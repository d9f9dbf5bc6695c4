"""Random numbers of Python in compiled code are inputs of the graph, and decide branches in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench
from tests.repair.test_fix import NEWER, search

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


@pytest.mark.skipif(not NEWER, reason="older versions of PyTorch trace random.random()")
def test_augmentations_become_one_graph(tmp_path: Path, shared: Bench) -> None:
    target = Target(tmp_path / "a.py")
    target.path.write_text(AUGMENT)
    out = search(target, shared)
    assert out.last.same
    assert (out.after, out.last.record.breaks) == (1, ())
    assert not any(patch.leaves for patch in out.kept)


@pytest.mark.skipif(not NEWER, reason="older versions of PyTorch trace random.random()")
def test_a_number_that_one_side_draws_is_not_drawn_for_the_other(
    tmp_path: Path, shared: Bench
) -> None:
    target = Target(tmp_path / "b.py")
    target.path.write_text(AUGMENT.replace("else x + 1", "else x + random.random()"))
    out = search(target, shared)
    assert out.last.same
    assert [one.where.code[:9] for one in out.last.record.breaks] == ["y = x * 2"]
