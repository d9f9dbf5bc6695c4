"""What an inlined function writes is written when the compiled call ends.

After the graph torch would drop the call, and say nothing.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_graphbreak.repair.outcome import SearchResult
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench
from tests.examples import sample
from tests.repair.test_fix import search

pytestmark = pytest.mark.once

PROGRAM = """\
import logging
import torch

SEEN = []
log = logging.getLogger("a")


class Part(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.seen, self.log = [], logging.getLogger("b")
        self.total = 0.0

    def forward(self, x):
        y = x * 2
        WRITES
        return y.sin()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Part()

    def forward(self, x):
        return self.part(self.part(x + 1)).cos()


def main():
    net = torch.compile(Net(), backend="eager")
    for n in range(3):
        net(torch.full((3,), n / 8))
    print(net.part.seen, net.part.total)


main()
print(SEEN)
"""
WRITES = (
    "print(y.sum().item())",
    "print('y', y.shape, y)\n        y.add_(1)",
    "log.warning('%.4f', y.sum().item())",
    "if y.sum() > 7:\n            print('large')\n            y = y / 2",
    "if y.dim():\n            z = y.sum()\n            print(z.item())",
    "SEEN.append(y.sum().item())",
)
STAYS = (
    "self.seen.append(y.sum().item())",
    "self.total += y.sum().item()",
)
"""What a module has."""


def searched(source: str, tmp_path: Path, shared: Bench) -> SearchResult:
    """Return what a search finds that loses no line."""
    target = Target(tmp_path / "a.py")
    target.path.write_text(source)
    return search(target, shared, keep_side_effects=True)


@pytest.mark.parametrize("writes", sample(WRITES, WRITES[:1]))
def test_what_is_written_in_a_part_is_written_when_the_call_ends(
    writes: str, tmp_path: Path, shared: Bench
) -> None:
    out = searched(PROGRAM.replace("WRITES", writes), tmp_path, shared)
    assert out.first.record.breaks
    assert out.first.roots == ["Net.forward"]
    assert (out.after, out.last.record.breaks) == (1, ())
    assert not out.comparison.words
    assert [patch.moves for patch in out.patches if "the compiled call ends" in patch.moves]
    assert out.last.lines == out.first.lines


@pytest.mark.nightly
@pytest.mark.parametrize("writes", STAYS)
def test_what_cannot_be_written_later_is_not_lost(
    writes: str, tmp_path: Path, shared: Bench
) -> None:
    out = searched(PROGRAM.replace("WRITES", writes), tmp_path, shared)
    assert out.first.record.breaks
    assert out.last.lines == out.first.lines
    assert not [patch.title for patch in out.patches if patch.moves]


TWICE = """\
import logging
import torch

seen = []
log = logging.getLogger("a")


class Counts:
    def __init__(self):
        self.total = 0


counts = Counts()


@torch.compile(backend="eager")
def part(x):
    y = x * 2
    WRITES
    return y.sin()


@torch.compile(backend="eager")
def whole(x):
    return part(x + 1).cos()


for n in range(2):
    part(torch.full((3,), n / 8))
    whole(torch.full((3,), n / 4))
print(seen)
"""
NOTED = (
    "seen.append(y.sum().item())",
    "log.warning('%s', y.sum().item())",
    "print(y.sum().item())",
)


@pytest.mark.parametrize("writes", sample(NOTED, NOTED[:1]))
def test_what_is_written_is_not_lost_where_it_is_inlined_as_well(
    writes: str, tmp_path: Path, shared: Bench
) -> None:
    """It is written later, also where it fills a list: that would compile the code again."""
    out = searched(TWICE.replace("WRITES", writes), tmp_path, shared)
    assert out.first.record.breaks
    assert out.first.roots == ["part", "whole"]
    assert not out.comparison.words
    assert out.last.lines == out.first.lines
    assert any(patch.moves for patch in out.patches)
