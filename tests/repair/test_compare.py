"""What two runs gave, leaf by leaf."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pytest_graphbreak.repair.compare import difference, flatten

pytestmark = pytest.mark.once


ONE = torch.ones(2)
NAN = torch.tensor([1.0, float("nan")])


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (ONE, ONE + 1e-7, None),
        (ONE * 1e6, ONE * 1e6 + 0.5, None),  # rounding grows with the values
        (ONE, ONE + 0.5, "the result: values differ by up to 0.5"),
        (ONE, ONE.double(), "the result: torch.float32 became torch.float64"),
        (ONE, ONE[:1], "the result: shape [2] became [1]"),
        (NAN, NAN.clone(), None),
        (NAN, ONE, "the result: values are NaN in one, not in the other"),
        (ONE.int(), ONE.int() * 2, "the result: values differ"),
        ([ONE, 1], [ONE, True], "[1]: int became bool"),
        ({"a": 1.0}, {"a": 1.0 + 1e-9}, None),
        ({"a": 1}, {"a": 2}, "['a']: '1' became '2'"),
        ([1, 2], [1], "the result has another structure"),
        ((1, 2), [1, 2], "(): '<tuple>' became '<list>'"),
    ],
)
def test_what_differs(before: Any, after: Any, words: str | None) -> None:
    assert difference(flatten(before), flatten(after)) == words
