"""Lines that write to one object of the module are written after the graph, in their order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench
from tests.repair.test_fix import NEWER, search

SCRIPT = """\
import collections
import torch


class Bar:
    def __init__(self):
        self.n, self.shown = 0, ""

    def show(self, **values):
        self.shown = ", ".join(f"{name} {value:.2f}" for name, value in values.items())

    def update(self, n):
        self.n += n
        print(self.n, self.shown)


bar, stats = Bar(), collections.defaultdict(list)


@torch.compile(backend="eager")
def step(x):
    loss = x.pow(2).mean()
    stats["loss"].append(loss.item())
    bar.show(loss=loss.item(), largest=x.max().item())
    stats["largest"].append(x.max().item())
    bar.update(1)
    return loss * 2


for number in range(3):
    step(torch.full((3,), number / 4))
print(dict(stats))
"""


@pytest.mark.skipif(not NEWER, reason="older versions of PyTorch break at other places")
def test_lines_of_one_object_keep_their_order(tmp_path: Path, shared: Bench) -> None:
    target = Target(tmp_path / "bars.py")
    target.path.write_text(SCRIPT)
    out = search(target, shared, keep_side_effects=True)
    assert out.first.error is None
    assert (out.after, out.last.record.breaks) == (1, ())
    titles = {patch.title for patch in out.kept}
    assert titles == {"the line and others of its object are written after the graph"}
    assert out.last.lines == out.first.lines
    plain = SCRIPT.replace('@torch.compile(backend="eager")\n', "")
    run = subprocess.run([sys.executable, "-c", plain], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == list(out.last.lines)


SUMS = """\
import torch

sums, hits = {"loss": 0.0, "right": 0}, [0] * 3


@torch.compile(backend="eager")
def step(x, n):
    loss = x.pow(2).mean()
    sums["loss"] += loss.item()
    sums["right"] += (x > 0).sum().item()
    hits[n] = hits[n] + int((x > 0).sum())
    return loss * 2


for number in range(4):
    step(torch.full((3,), number / 4), number % 3)
print(sums, hits)
"""


@pytest.mark.skipif(not NEWER, reason="older versions of PyTorch break at other places")
def test_sums_of_the_module_do_not_compile_again(tmp_path: Path, shared: Bench) -> None:
    """A number in a dictionary is a constant of the graph: each step was compiled again."""
    target = Target(tmp_path / "sums.py")
    target.path.write_text(SUMS)
    out = search(target, shared, keep_side_effects=True)
    assert (out.after, out.last.record.breaks) == (1, ())
    assert not out.last.record.recompile_list
    assert out.last.lines == out.first.lines
