"""Checks of a number for NaN, which decide what runs, become ops of the graph."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench
from tests.repair.test_fix import NEWER, search

pytestmark = pytest.mark.once

SCRIPT = """\
import math
import numpy as np
import torch


@torch.compile(backend="eager")
def checked(x):
    loss = x.pow(2).mean()
    value = loss.item()
    if not math.isfinite(value):
        raise ValueError(f"the loss is {value}")
    return x + loss


@torch.compile(backend="eager")
def skipped(x):
    loss = x.pow(2).mean()
    if np.isnan(loss.item()):
        print("skipped")
        return x * 0
    return x + loss


@torch.compile(backend="eager")
def asserted(x):
    loss = x.pow(2).mean()
    assert not math.isnan(loss.item()), "NaN"
    return x + loss


for number in (1.0, 2.0):
    print(checked(torch.ones(3) * number), asserted(torch.ones(3) * number))
    print(skipped(torch.tensor([1.0, math.nan, number])), skipped(torch.ones(3) * number))
"""


@pytest.mark.skipif(not NEWER, reason="older versions of PyTorch break at other places")
def test_a_check_for_nan_is_an_op(tmp_path: Path, shared: Bench) -> None:
    target = Target(tmp_path / "checks.py")
    target.path.write_text(SCRIPT)
    out = search(target, shared)
    assert out.first.error is None
    assert not out.comparison.words
    assert (out.after, out.last.record.breaks) == (3, ())
    titles = [patch.title for patch in out.patches]
    assert "what the branch writes is written after the graph, the rest is torch.where" in titles
    assert titles.count("the check became torch._assert_async") == 2
