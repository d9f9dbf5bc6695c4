"""Numbers that are constants of the graph are those of the call, or the graph raises."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.remedies import constants
from tests.examples import examples
from tests.repair.remedies.sound import LISTS, Pair, source_of

pytestmark = pytest.mark.once

BODIES = {
    "a list": "for one in x.tolist():\n    y = y + torch.atan2(y, -y * one)\nreturn y",
    "a number": "return y * x.sum().item()",
}


@pytest.mark.parametrize("name", sorted(BODIES))
def test_numbers_that_are_constants(name: str) -> None:
    source = source_of(BODIES[name])
    changed = constants.change(source, Frame("a.py", "f", 0, ""))
    assert changed is not None
    compile = torch.compile
    pair = Pair(source, changed, *constants.HELPERS)
    torch.compile = compile

    @examples(50)
    @given(st.lists(LISTS, min_size=2, max_size=3))
    def check(drawn: list[list[float]]) -> None:
        torch._dynamo.reset()
        for values in (*drawn, drawn[0]):
            pair.check(torch.tensor(values, dtype=torch.float64), torch.tensor([1.0, -2.0]))

    check()


def test_random_numbers_are_none() -> None:
    source = source_of("return x * torch.randn(2).sum().item()")
    assert constants.change(source, Frame("a.py", "f", 0, "")) is None
