"""A choice that became torch.where gives what the branch gave, whatever the inputs are."""

from __future__ import annotations

import pytest
import torch
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from pytest_graphbreak.repair.remedies import where
from tests.repair.remedies.branches import PROGRAMS, SPACE
from tests.repair.remedies.sound import TENSORS, Pair, rewritten, source_of

RAISES = {"of a list", "of shapes", "of two kinds", "of two that were read"}
"""What is rewritten, and refused by an op or a check whenever it runs."""
UNFIT = {
    *("a method in place", "and later in place", "of blocks", "of random numbers"),
    *("of what is set before", "that prints", "that returns a part", "that returns an argument"),
}


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_branch_gives_what_it_gave(name: str) -> None:
    changed = rewritten(where.CHANGE, PROGRAMS[name])
    assert (changed is None) == (name in UNFIT)
    if changed is None:
        return
    pair = Pair(source_of(PROGRAMS[name]), changed, **SPACE)

    @settings(max_examples=6, deadline=None, phases=(Phase.explicit, Phase.generate))
    @example(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), False)
    @example(torch.tensor([-1.0, -2.0]), torch.tensor([-3.0, 4.0]), False)
    @given(TENSORS, TENSORS, st.booleans())
    def check(x: torch.Tensor, y: torch.Tensor, grads: bool) -> None:
        pair.check(x, y, grads=grads)

    check()
    # An error is allowed for an input; a rewrite that gives nothing else is broken.
    assert (pair.held == 0) == (name in RAISES)
