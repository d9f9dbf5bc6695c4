"""Loops over what a tensor chose, such as the experts of a mixture: over all of them instead."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.rewrite import apply
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench
from tests.repair.test_numbers import search

TITLE = "the loop goes over all indices, and capture_dynamic_output_shape_ops"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, server: subprocess.Popen[str]) -> Bench:
    return Bench(tmp_path_factory.mktemp("bench"), 300, server)


def rewritten(body: str) -> str | None:
    source = "def f(x, mask):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    return apply(source, "every_index", Frame("a.py", "f", 0, ""))


def test_rows_become_numbers_and_nothing_is_left_out() -> None:
    changed = rewritten(
        "hit = mask.any(-1).nonzero()\n"
        "for row in hit:\n"
        "    at = int(row.item()) + row[0]\n"
        "    place = torch.where(mask[row].squeeze(0))\n"
        "    if place.numel() == 0:\n"
        "        continue\n"
        "    x = x + at\n"
        "return x"
    )
    assert changed == (
        "def f(x, mask):\n"
        "    hit = range(len(mask.any(-1)))\n"
        "    for row in hit:\n"
        "        at = int(row) + row\n"
        "        place = torch.where(mask[row])\n"
        "        x = x + at\n"
        "    return x\n"
    )


@pytest.mark.parametrize(
    "body",
    [
        "hit = mask.nonzero()\nreturn hit",
        "hit = mask.nonzero()\nfor row in hit:\n    pass\nreturn len(hit)",
        "hit = torch.nonzero(mask)\nfor row in hit:\n    pass",
        "for row in mask.nonzero():\n    pass",
    ],
)
def test_another_form_is_left_alone(body: str) -> None:
    assert rewritten(body) is None


EXPERTS = """\
import torch


class Experts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.weight = torch.nn.Parameter(torch.randn(4, 8, 8))

    def forward(self, x):
        chosen = x[:, :4].argmax(-1)
        mask = torch.nn.functional.one_hot(chosen, 4).permute(1, 0)
        out = torch.zeros_like(x)
        hit = torch.greater(mask.sum(-1), 0).nonzero()
        for row in hit:
            (token,) = torch.where(mask[row].squeeze(0))
            out.index_add_(0, token, x[token] @ self.weight[row[0]]){more}
        return out


model = torch.compile(Experts(), backend="eager")
with torch.no_grad():
    model(torch.randn(6, 8))
"""


def test_a_mixture_of_experts_is_one_graph(tmp_path: Path, shared: Bench) -> None:
    target = Target(tmp_path / "a.py")
    target.path.write_text(EXPERTS.format(more=""))
    out = search(target, shared)
    assert [patch.title for patch in out.kept] == [TITLE]
    assert (out.after, out.last.record.breaks, out.last.same) == (1, (), True)


def test_a_loop_that_does_more_for_what_is_not_hit_is_refused(
    tmp_path: Path, shared: Bench
) -> None:
    target = Target(tmp_path / "a.py")
    target.path.write_text(EXPERTS.format(more="\n            out = out + 1"))
    out = search(target, shared)
    tried = {one.patch.title: one.why for problem in out.problems for one in problem.tried}
    assert tried[TITLE].startswith("other results")
    assert all(patch.title != TITLE for patch in out.kept)
