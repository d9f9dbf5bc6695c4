"""A check in the graph raises where the program does, and changes nothing else."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import example, given

from pytest_graphbreak.repair.patch import UnfitError
from pytest_graphbreak.repair.remedies import check
from tests.examples import examples
from tests.repair.remedies.sound import TENSORS, Pair, loaded, rewritten, source_of

pytestmark = pytest.mark.once

CHECKS = {
    "an if": "if x.isnan().any():\n    raise ValueError('NaN')\nreturn x * 2",
    "an assert": "assert x.sum() >= 0, 'below zero'\nreturn x + y",
    "a number that was read": (
        "n = x.pow(2).sum().item()\nif not math.isfinite(n):\n    raise ValueError(n)\nreturn x + y"
    ),
    "a number that is read": "assert x.max().item() < 2.0\nreturn x + y",
    "a message with values": "assert (x == x).all(), f'{x} is NaN'\nreturn x * 1",
}


@pytest.mark.parametrize("name", sorted(CHECKS))
def test_a_check_raises_where_it_did(name: str) -> None:
    source, changed = source_of(CHECKS[name]), rewritten(check.CHANGE, CHECKS[name])
    pair, plain = Pair(source, changed, math=math), loaded(source, math=math)["f"]
    patched = torch.compile(loaded(changed, math=math)["f"], backend="eager", fullgraph=True)

    @examples(40)
    @example(torch.tensor([1.0, 0.5]), torch.tensor([3.0, 4.0]))
    @given(TENSORS, TENSORS)
    def same(x: torch.Tensor, y: torch.Tensor) -> None:
        try:
            plain(x, y)
        except (ValueError, AssertionError):
            with pytest.raises(RuntimeError):
                patched(x, y)
        else:
            pair.check(x, y)

    same()
    pair.check_errors(None)


def test_a_number_is_checked_by_torch_check() -> None:
    changed = rewritten(check.OF_NUMBERS, "assert n > 0, 'no row'\nreturn x", head="def f(x, n):")
    assert "    torch._check(n > 0, lambda: 'no row')\n" in changed


def test_values_are_left_out_of_the_words() -> None:
    changed = rewritten(check.CHANGE, "if x.sum() > 3:\n    raise ValueError(f'{x} is {{large}}')")
    assert "'... is {large}'" in changed


@pytest.mark.parametrize("body", ["if x.sum() > 0:\n    return x", "if x.sum() > 0:\n    raise"])
def test_another_if_is_no_check(body: str) -> None:
    with pytest.raises(UnfitError, match="no `if` that only raises"):
        rewritten(check.CHANGE, body)
