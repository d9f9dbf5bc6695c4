"""A choice that became torch.cond gives what the branch gave, whatever the inputs are."""

from __future__ import annotations

from typing import Final

import pytest

from pytest_graphbreak.repair.remedies import cond
from tests.examples import sample
from tests.repair.remedies.branches import PROGRAMS, SAMPLE, check_branch

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


@pytest.mark.parametrize("name", sample(sorted(PROGRAMS), {*SAMPLE, *UNFIT, *RAISES}))
def test_a_branch_gives_what_it_gave(name: str) -> None:
    check_branch(cond.CHANGE, name, UNFIT, RAISES)
