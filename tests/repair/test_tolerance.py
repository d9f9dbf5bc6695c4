"""What two runs gave, leaf by leaf, and what they printed, line by line."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch

from pytest_graphbreak.repair.comparison import ValueDifference
from pytest_graphbreak.repair.tolerance import (
    Comparer,
    line_difference,
    unsteady_lines,
    without_lines,
)
from pytest_graphbreak.repair.values import flatten, settle

pytestmark = pytest.mark.once


class Pair(NamedTuple):
    first: Any
    second: int


ONE = torch.ones(2)
NAN = torch.tensor([1.0, float("nan")])
LARGE = torch.tensor([0.25, torch.finfo(torch.float32).min])


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (ONE, ONE + 1e-7, None),
        (ONE * 1e6, ONE * 1e6 + 0.5, None),  # rounding grows with the value
        (LARGE, LARGE + torch.tensor([0.5, 0]), "the result, element [0]: 0.25 became 0.75"),
        (ONE, ONE + 0.5, "the result, element [0]: 1.0 became 1.5"),
        (ONE, ONE.double(), "the result, its dtype: torch.float32 became torch.float64"),
        (ONE, ONE[:1], "the result, its shape: [2] became [1]"),
        (NAN, NAN.clone(), None),
        (NAN, ONE, "the result, element [1]: nan became 1.0"),
        (ONE.int(), ONE.int() * 2, "the result, element [0]: 1 became 2"),
        (ONE, ONE.clone().requires_grad_(), "the result, requires_grad: False became True"),
        (torch.ones(2, 3), torch.ones(3, 2).t(), "the result, contiguous: True became False"),
        ([ONE, 1], [ONE, True], "the result[1]: 1 (int) became True (bool)"),
        ([ONE, 1], [ONE, 1.0], "the result[1]: 1 (int) became 1.0 (float)"),
        ({"a": 1.0}, {"a": 1.0 + 1e-9}, None),
        ({"a": 1}, {"a": 2}, "the result['a']: 1 became 2"),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, "the result, its structure"),
        ([1, 2], [1], "the result, its structure: [1] = 2 became nothing"),
        ((1, 2), [1, 2], "the result(): <tuple> became <list>"),
        (Pair(ONE, 1), Pair(ONE, 2), "the result[1]: 1 became 2"),
        (SimpleNamespace(a=1), SimpleNamespace(a=2), "the result.a: 1 became 2"),
        ({1, 2}, {1, 3}, "the result{1}: '2' became '3'"),
        ([*range(99)], [*range(98), 1], "the result, element [98]: 98 became 1"),
        ([*range(99)], [*map(float, range(99))], "the result, its dtype: torch.int64 became"),
        ([0] * 98 + [2**70], [0] * 98 + [2**71], "the result[98]: 1180591620717411303424 became"),
        (None, torch.zeros(2), None),  # a gradient of a branch that was not taken
        (None, ONE, "the result: None became [1.0, 1.0]"),
    ],
)
def test_what_differs(before: Any, after: Any, words: str | None) -> None:
    difference = Comparer().difference(flatten(before), flatten(after), "the result")
    if words is None:
        assert difference is None
    else:
        assert str(difference).startswith(words)


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        (3, torch.tensor(3), True),
        (3, torch.tensor(4), False),
        (3, torch.tensor([3.0]), True),
        (ONE, (ONE.double(), 1), False),
        (ONE, (ONE, torch.zeros(1)), True),
        (ONE, (ONE + 1, torch.zeros(1)), False),
        ([0.5, 1.5], torch.tensor([0.5, 1.5, 0.0]), True),
        ([0.5, 1.5], torch.tensor([1.5, 0.5]), False),
        ([ONE, ONE * 2], torch.stack([ONE, ONE * 2]), True),
        (0.1, torch.tensor(0.1), True),  # a float of Python has more digits
        (1.5, torch.tensor(1), False),
        (1.5, [1], False),
        (torch.tensor(1.5), [1], False),
        (0.1, torch.tensor(0.1, dtype=torch.float16), False),
        (torch.tensor(0.1, dtype=torch.float16).item(), torch.tensor(0.1).half(), True),
        (2.0, torch.tensor(2), False),
        (2, torch.tensor(True), False),
        (2, [True], False),
        (1, [True], False),
        (True, [1], False),
        (1, [1.0], False),
        (2**24 + 1, torch.tensor(2.0**24), False),
        (300, torch.tensor(300).to(torch.int8), False),
        ((1, 2**70), (1, 2**71, 0), False),
        ((1, 2j), (1, 2j, 0), True),
        ((1, 2j), (1, 3j, 0), False),
        ((1, "a"), (1, "a", 0), True),
        ((1, "a"), (1, "b", 0), False),
    ],
)
def test_numbers_in_another_form(before: Any, after: Any, same: bool) -> None:
    assert Comparer().same_numbers(flatten(before), flatten(after)) is same


def test_what_changes_later_is_not_seen() -> None:
    tensor = torch.ones(2)
    flat = settle(flatten([tensor]))
    tensor.zero_()
    assert Comparer().difference(flat, flatten([torch.ones(2)])) is None


@pytest.mark.parametrize(
    ("before", "after", "unlike"),
    [
        (["a", "loss 1.4467"], ["loss 1.4467", "a"], (", line 1", "'a'", "'loss 1.4467'")),
        (["loss 1.4467"], ["loss 1.4468"], None),  # the last digit is rounded
        (["loss 1.4467"], ["loss 1.4567"], (", line 1", "'loss 1.4467'", "'loss 1.4567'")),
        (["0.5"], ["0.6"], (", line 1", "'0.5'", "'0.6'")),
        (["0.1234567"], ["0.1234568"], None),
        (["1.0e-05"], ["1.1e-05"], None),  # nothing but rounding is as small
        (["2.0e-05"], ["5.0e-05"], (", line 1", "'2.0e-05'", "'5.0e-05'")),
        (["-0.0000"], ["0.0000"], None),
        (["-1.5"], ["1.5"], (", line 1", "'-1.5'", "'1.5'")),
        (["step 3"], ["step 4"], (", line 1", "'step 3'", "'step 4'")),
        (["step 3"], ["step 3.0"], (", line 1", "'step 3'", "'step 3.0'")),
        (["a", "a"], ["a"], (", line 2", "'a'", "no such line")),
        (["a"], ["a", "b"], (", line 2", "no such line", "'b'")),
        (["<f at 0x7f1>"], ["<f at 0x8a2>"], None),
        (["", "a"], ["a", " "], None),
        (["[1.], grad_fn=<MulBackward0>"], ["[1.], grad_fn=<CompiledFunctionBackward>"], None),
    ],
)
def test_which_line_differs(
    before: list[str], after: list[str], unlike: tuple[str, str, str] | None
) -> None:
    assert line_difference(before, after) == (unlike and ValueDifference(*unlike))


def test_a_time_is_told_by_a_second_run_of_the_original() -> None:
    first, second, other = ["0.31 s", "a 1"], ["0.45 s", "a 1"], ["0.29 s", "a 2"]
    unsteady = unsteady_lines(first, second)
    assert unsteady == {"# s"}
    lines = [without_lines(run, unsteady) for run in (first, other)]
    assert line_difference(*lines) == ValueDifference(", line 1", "'a 1'", "'a 2'")
