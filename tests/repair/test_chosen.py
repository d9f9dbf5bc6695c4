"""``x[best]``, where a tensor without dimensions chooses, as an index of one element."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.rewrite import apply
from pytest_graphbreak.repair.rewrite.scope import UnfitError
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench
from tests.repair.test_loops import loaded
from tests.repair.test_numbers import search

X = torch.arange(12.0).reshape(3, 4)


def source(*lines: str) -> str:
    return "def f(x, i):\n" + "".join(f"    {line}\n" for line in lines)


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        (("y = x * 2", "return y[i] + 1"), 1),
        (("y = x * 2", "best = y.sum(1).argmax()", "return y[best], i"), 2),
        (("y = x[x.sum(1).argmax()] * 2", "return y"), 0),
        (("y = x * 1", "return y[:, i]"), 1),
        (("y = x[i - 1].sum()", "return y"), 0),
        (("y = [x[0] * x[i].mean(), i]", "return y"), 0),
    ],
)
@pytest.mark.parametrize("index", [0, 2, -1])
def test_the_chosen_row_is_the_same(lines: tuple[str, ...], place: int, index: int) -> None:
    plain = source(*lines)
    changed = apply(plain, "index", Frame("a.py", "f", 0, lines[place]))
    assert changed is not None
    torch._dynamo.reset()
    run = torch.compile(loaded(changed), backend="eager", fullgraph=True)
    given = torch.tensor(index)
    torch.testing.assert_close(run(X, given), loaded(plain)(X, given))


def test_an_index_that_is_out_of_range_is_an_error() -> None:
    changed = apply(
        source("return x[i].sum()"), "index", Frame("a.py", "f", 0, "return x[i].sum()")
    )
    assert changed is not None
    torch._dynamo.reset()
    run = torch.compile(loaded(changed), backend="eager", fullgraph=True)
    with pytest.raises(IndexError, match="out of bounds"):
        run(X, torch.tensor(9))


@pytest.mark.parametrize(
    ("lines", "place", "why"),
    [
        (("return x[i]",), 0, "a view of x is returned"),
        (("y = x[i]", "y += 1", "return x"), 0, "view"),
        (("y = x[i]", "x.zero_()", "return y"), 0, "view"),
        (("x[i].add_(1)", "return x"), 0, "view"),
        (("return x[i:]",), 0, "no tensor is an index"),
    ],
)
def test_a_view_stays(lines: tuple[str, ...], place: int, why: str) -> None:
    with pytest.raises(UnfitError, match=why):
        apply(source(*lines), "index", Frame("a.py", "f", 0, lines[place]))


BEAMS = """\
import torch


@torch.compile(backend="eager")
def best(logits):
    seqs = torch.zeros(2, 1, dtype=torch.long)
    scores = torch.zeros(2)
    for _ in range(5):
        token = (logits[seqs[:, -1]] + scores[:, None]).argmax(-1)
        seqs = torch.cat([seqs, token[:, None]], dim=1)
        scores = scores + token * 0.5
        if (token == 2).all():
            break
    return seqs[scores.argmax()]


with torch.no_grad():
    best(torch.eye(3).roll(1, 1))
    best(torch.eye(3))
"""


def test_a_search_with_beams_is_one_graph(tmp_path: Path, shared: Bench) -> None:
    target = Target(tmp_path / "a.py")
    target.path.write_text(BEAMS)
    out = search(target, shared)
    assert (out.after, out.last.record.breaks, not out.comparison.words) == (1, (), True)
