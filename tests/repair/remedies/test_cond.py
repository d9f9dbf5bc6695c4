"""A choice that became torch.cond gives what the branch gave, whatever the inputs are."""

from __future__ import annotations

from typing import Final

import pytest
import torch
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from pytest_graphbreak.repair.patch import UnfitError
from pytest_graphbreak.repair.remedies import cond
from tests.repair.remedies.branches import PROGRAMS, SPACE
from tests.repair.remedies.sound import TENSORS, Pair, rewritten, source_of

pytestmark = pytest.mark.once

UNFIT: Final[dict[str, str]] = {
    "a method in place": "it holds `x.mul_",
    "and later another name in place": "z is changed in place later",
    "and later in place": "z is changed in place later",
    "in place": "it holds `x ",
    "in place of both": "it holds `x ",
    "of random numbers": "draws random numbers",
}
"""What stays as it is, each with the reason."""
RAISES: Final[dict[str, str]] = {
    "of a list": "unsupported operand type",
    "of numbers": "'clone'",
    "of shapes": "expected same dim",
    "of two kinds": "'clone'",
    "of two that were read": "Missing attribute",
    "of whole numbers": "'clone'",
    "that prints": "Unsafe side effect",
}
"""What raises for each input when it is rewritten, while the branch computes: a patch that raises
is not kept. Each with words of its error."""


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_branch_gives_what_it_gave(name: str) -> None:
    if name in UNFIT:
        with pytest.raises(UnfitError, match=UNFIT[name]):
            rewritten(cond.CHANGE, PROGRAMS[name])
        return
    pair = Pair(source_of(PROGRAMS[name]), rewritten(cond.CHANGE, PROGRAMS[name]), **SPACE)

    @settings(max_examples=6, deadline=None, phases=(Phase.explicit, Phase.generate))
    @example(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), False)
    @example(torch.tensor([-1.0, -2.0]), torch.tensor([-3.0, 4.0]), False)
    @given(TENSORS, TENSORS, st.booleans())
    def check(x: torch.Tensor, y: torch.Tensor, grads: bool) -> None:
        pair.check(x, y, grads=grads)

    check()
    # An error is allowed for an input; a rewrite that gives nothing else is broken.
    assert (pair.equal == 0) == (name in RAISES)
    pair.check_errors(RAISES.get(name))
