"""Checks of a number for NaN, which decide what runs, become ops of the graph."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench
from tests.examples import sample
from tests.repair.test_fix import NEWER, search

pytestmark = pytest.mark.once

HEAD = """\
import math
import numpy as np
import torch


"""
CHECKS = {
    "checked": """\
@torch.compile(backend="eager")
def checked(x):
    loss = x.pow(2).mean()
    value = loss.item()
    if not math.isfinite(value):
        raise ValueError(f"the loss is {value}")
    return x + loss
""",
    "skipped": """\
@torch.compile(backend="eager")
def skipped(x):
    loss = x.pow(2).mean()
    if np.isnan(loss.item()):
        print("skipped")
        return x * 0
    return x + loss
""",
    "asserted": """\
@torch.compile(backend="eager")
def asserted(x):
    loss = x.pow(2).mean()
    assert not math.isnan(loss.item()), "NaN"
    return x + loss

""",
}
CALLS = """

for values in INPUTS:
    print(NAME(torch.tensor(values)))
"""
INPUTS = [[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]
TITLES = dict.fromkeys(CHECKS, "the check became torch._assert_async") | {
    "skipped": "what the branch writes is written after the graph, the rest is torch.where"
}


@pytest.mark.skipif(not NEWER, reason="older versions of PyTorch break at other places")
@pytest.mark.parametrize("name", sample(CHECKS, ["asserted"]))
def test_a_check_for_nan_is_an_op(name: str, tmp_path: Path, shared: Bench) -> None:
    target = Target(tmp_path / "checks.py")
    inputs = [*INPUTS, [1.0, math.nan, 2.0]] if name == "skipped" else INPUTS
    calls = CALLS.replace("NAME", name).replace("INPUTS", repr(inputs).replace("nan", "math.nan"))
    target.path.write_text(HEAD + CHECKS[name] + calls)
    out = search(target, shared)
    assert out.first.error is None
    assert not out.comparison.words
    assert (out.after, out.last.record.breaks) == (1, ())
    assert TITLES[name] in [patch.title for patch in out.patches]
