"""A value that only the next line writes is written with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.rewrite import apply
from pytest_graphbreak.repair.rewrite.scope import UnfitError
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench
from tests.repair.test_fix import NEWER, search

SOURCE = "def f(x):\n    y = x * 2\n    {}\n    return y\n"


def rewritten(*lines: str) -> str | None:
    source = SOURCE.format("\n    ".join(lines))
    return apply(source, "joined", Frame("a.py", "f", 0, lines[0]))


@pytest.mark.parametrize(
    ("lines", "becomes"),
    [
        (("n = math.exp(y.item())", "seen.append(n)"), "seen.append(math.exp(y.item()))"),
        (("n = y.item()", "print('n', n, y)", "y += 1"), "print('n', y.item(), y)\n    y += 1"),
        (("t = f'{y.item():.3f}'", "log.info(t)"), "log.info(f'{y.item():.3f}')"),
    ],
)
def test_the_value_is_put_into_the_next_line(lines: tuple[str, ...], becomes: str) -> None:
    assert rewritten(*lines) == SOURCE.format(becomes)


@pytest.mark.parametrize(
    "lines",
    [
        ("n = y.item()", "y = y + 1", "print(n)"),  # y changes in between
        ("n = y.item()", "print(n)", "y = y + n"),
        ("n = y.item()", "print(n, n)"),
        ("n = y.item()", "y = y + n"),
        ("n, m = y.tolist()", "print(n)"),
        ("n = y.item()",),
        ("n = y.item()", "if y.sum() > 0:", "    print(n)"),
        ("n = y.item()", "print(1)", "g = lambda: n"),
    ],
)
def test_a_value_that_is_used_in_another_way_stays(lines: tuple[str, ...]) -> None:
    with pytest.raises(UnfitError):
        rewritten(*lines)


def test_a_value_of_the_round_before_stays() -> None:
    source = "def f(x):\n    n = 0\n    for y in x:\n        y += n\n        {}\n        print(n)\n"
    line = "n = y.item()"
    with pytest.raises(UnfitError, match="elsewhere"):
        apply(source.format(line), "joined", Frame("a.py", "f", 0, line))


PROGRAM = """\
import math
import torch

seen = []


@torch.compile(backend="eager")
def loss_of(x):
    loss = x.pow(2).mean()
    perplexity = math.exp(loss.item())
    seen.append(perplexity)
    text = f"{x.mean().item():.3f}"
    print("mean", text)
    return loss


for n in range(3):
    loss_of(torch.full((3,), n / 4))
print(seen)
"""


@pytest.mark.skipif(not NEWER, reason="older versions of PyTorch fail at the text")
def test_values_that_are_only_written_are_no_break(tmp_path: Path, shared: Bench) -> None:
    target = Target(tmp_path / "a.py")
    target.path.write_text(PROGRAM)
    out = search(target, shared, keep_side_effects=True)
    assert not out.comparison.words
    assert (out.after, out.last.record.breaks) == (1, ())
    assert not out.last.record.recompile_list
