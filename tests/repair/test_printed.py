"""Lines that two runs print: in their order, and with numbers as close as values."""

from __future__ import annotations

import pytest

from pytest_graphbreak.repair import printed

pytestmark = pytest.mark.pure


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
def test_what_differs(
    before: list[str], after: list[str], unlike: tuple[str, str, str] | None
) -> None:
    assert printed.difference(before, after) == unlike


def test_a_time_is_told_by_a_second_run_of_the_original() -> None:
    first, second, other = ["0.31 s", "a 1"], ["0.45 s", "a 1"], ["0.29 s", "a 2"]
    unsteady = printed.unsteady(first, second)
    assert unsteady == {"# s"}
    lines = [printed.without(run, unsteady) for run in (first, other)]
    assert printed.difference(*lines) == (", line 1", "'a 1'", "'a 2'")
