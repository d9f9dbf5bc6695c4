"""A choice that became torch.where gives what the branch gave, whatever the inputs are."""

from __future__ import annotations

from typing import Final

import pytest

from pytest_graphbreak.repair.remedies import where
from tests.examples import sample
from tests.repair.remedies.branches import PROGRAMS, SAMPLE, check_branch

pytestmark = pytest.mark.once

UNFIT: Final[dict[str, str]] = {
    "a method in place": "may do more",
    "and later another name in place": "z is changed in place later",
    "and later in place": "z is changed in place later",
    "of blocks": "more than set one name",
    "of random numbers": "may do more",
    "of what is set before": "more than set one name",
    "that prints": "more than set one name",
    "that returns a part": "more than set one name",
    "that returns an argument": "may do more",
}
"""What stays as it is, each with the reason."""
RAISES: Final[dict[str, str]] = {
    "of a list": "unsupported operand type",
    "of shapes": "Observed exception",
    "of two kinds": "Observed exception",
    "of two that were read": "Missing attribute",
}
"""What raises for each input when it is rewritten, while the branch computes: a patch that raises
is not kept. Each with words of its error."""


@pytest.mark.parametrize("name", sample(sorted(PROGRAMS), {*SAMPLE, *UNFIT, *RAISES}))
def test_a_branch_gives_what_it_gave(name: str) -> None:
    check_branch(where.CHANGE, name, UNFIT, RAISES)
