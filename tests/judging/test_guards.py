"""What failed guards say: reasons of one kind are one reason, with the values that came."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_graphbreak.judging.guards import kind, plainly, reason

pytestmark = pytest.mark.pure


SIZE = "tensor 'x' size mismatch at index 1. expected {0}, actual 9"
GROWN = "tensor 'x' size mismatch at index 0. expected {0}, actual {1} (x has shape [{1}, 8] now)"


@pytest.mark.parametrize(
    ("text", "numbers", "words"),
    [
        (
            "n == {0} (n is {1} now)",
            range(7),
            "another value of n in each call: 1, 2, 3, 4, 5, 6 and 1 more",
        ),
        (GROWN, (4, 5), "another shape of x in each call: [5, 8], [6, 8]"),
        (
            "the static argument n: {0} before, {1} now (f of a.py:1)",
            (3, 4),
            "another value of n in each call: 4, 5",
        ),
        (
            "`x` went from shape [1, {0}] to [1, {1}]",
            (4, 5, 6, 7),
            "another shape of `x` in each call: [1, 5], [1, 6], [1, 7], [1, 8]",
        ),
        (SIZE, (4, 5), f"{SIZE.format(4)}, ... {SIZE.format(5)}"),
        ("n == 3", (3, 3), "n == 3"),
        (
            "___stack0 == 3 (___stack0 is {0} now)",
            (4, 5),
            "a value that the break left (___stack#) == # fails in each call: 4, 5",
        ),
        ("x1 is None (x1 is {0} now)", (4, 5), "x1 is None fails in each call: 4, 5"),
    ],
)
def test_reasons_of_one_kind_are_one_reason(text: str, numbers: Sequence[int], words: str) -> None:
    """The second number of a text is one more than the first."""
    assert reason(text.format(number, number + 1) for number in numbers) == words


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("___stack1 == 3", "a value that the break left (___stack1) == 3"),
        (
            "tensor '___stack0' size mismatch at index 0",
            "tensor a value that the break left (___stack0) size mismatch at index 0",
        ),
        ("__import_yolo_dot_head.SCALE == 2", "yolo.head.SCALE == 2"),
        ("___check_obj_id(fn, ...)", "fn is another object now (___check_obj_id(fn, ...))"),
        ("n == 3", "n == 3"),
    ],
)
def test_generated_names_do_not_stand_alone(reason: str, words: str) -> None:
    assert plainly(reason) == words


@pytest.mark.parametrize(
    ("first", "second", "is_one"),
    [
        ("x1 is None", "x2 is None", False),
        ("hasattr(self.layer1, 'bias')", "hasattr(self.layer2, 'bias')", False),
        ("x is None (x is 1 now)", "x is None (x is 2 now)", True),
        ("not xs[0]", "not xs[1]", True),
        ("1.5 < x", "-2 < x", True),
        ("x is (2.5e-05, 1)", "x is (3.5e-06, 1)", True),
        ("___stack0 is None", "___stack1 is None", True),
        ("not __builtins_dict___3['len']", "not __builtins_dict___5['len']", True),
    ],
)
def test_a_kind_tells_names_apart_and_no_numbers(first: str, second: str, is_one: bool) -> None:
    assert (kind(first) == kind(second)) is is_one
