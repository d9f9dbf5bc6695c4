"""Lines that two runs print: whatever their order, and with numbers as close as values."""

from __future__ import annotations

import pytest

from pytest_graphbreak.repair import printed

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (["a", "loss 1.4467"], ["loss 1.4468", "a"], None),
        (["loss 1.4467"], ["loss 1.4567"], "it prints 'loss 1.4567' where the original prints"),
        (["step 3"], ["step 4"], "it prints 'step 4' where the original prints 'step 3'"),
        (["a", "a"], ["a"], "it no longer prints 'a'"),
        (["a"], ["a", "b"], "it prints 'b', which the original does not"),
        (["<f at 0x7f1>"], ["<f at 0x8a2>"], None),
        (["", "a"], ["a", " "], None),
        (["[1.], grad_fn=<MulBackward0>"], ["[1.], grad_fn=<CompiledFunctionBackward>"], None),
        (["[1.], grad_fn=<MulBackward0>"], ["[1.]"], "it prints '[1.]', which the original"),
    ],
)
def test_what_differs(before: list[str], after: list[str], words: str | None) -> None:
    difference = printed.difference(before, after)
    assert difference == words if words is None else (difference or "").startswith(words)


def test_a_patch_may_say_that_it_drops_lines_but_adds_none() -> None:
    assert printed.difference(["a", "b"], ["a"], dropped=True) is None
    assert printed.difference(["a"], ["a", "b"], dropped=True) is not None


def test_a_time_is_told_by_a_second_run_of_the_original() -> None:
    first, second, other = ["0.31 s", "a 1"], ["0.45 s", "a 1"], ["0.29 s", "a 2"]
    unsteady = printed.unsteady(first, second)
    assert unsteady == {"# s"}
    lines = [printed.without(run, unsteady) for run in (first, other)]
    assert printed.difference(*lines) == "it prints 'a 2' where the original prints 'a 1'"
