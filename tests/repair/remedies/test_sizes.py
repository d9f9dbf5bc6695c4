"""Sizes that vary: the calls of torch.compile, and what a call that marks them gives and leaves."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.remedies import sizes
from pytest_graphbreak.repair.rewrite.helpers import _graphbreak_tensors, helper
from tests.examples import examples
from tests.repair.remedies.sound import bits, loaded

pytestmark = pytest.mark.once

HERE = Frame("a.py", "<module>", 0, "")


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("f = torch.compile(f)", "f = torch.compile(f, dynamic=True)"),
        ("f = torch.compile(f, dynamic=False)", "f = torch.compile(f, dynamic=True)"),
        (
            '@torch.compile(backend="eager")\ndef f(x): return x',
            '@torch.compile(backend="eager", dynamic=True)\ndef f(x): return x',
        ),
    ],
)
def test_the_calls_of_a_program_are_dynamic(line: str, wanted: str) -> None:
    head = "import torch\n\n\n"
    assert sizes.as_dynamic(f"{head}{line}  # here\n", HERE) == f"{head}{wanted}  # here\n"


@pytest.mark.parametrize("line", ["re.compile('a')", "model.compile()", "x = 3"])
def test_other_calls_stay(line: str) -> None:
    assert sizes.as_dynamic(f"import re\n{line}\n", HERE) is None


@pytest.mark.parametrize("function", ["mark_dynamic", "mark_unbacked"])
def test_what_is_marked_gives_and_leaves_what_it_did(function: str) -> None:
    """Sizes 0 and 1, tensors that somebody marked, gradients."""
    space = loaded(helper(_graphbreak_tensors), helper(sizes._graphbreak_mark))

    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x * 2 + y).sum(0) / (x.shape[0] + 1)

    model.__qualname__ = "model"
    table = {"model": {"x": (0,), "y": (0, 5)}}

    @examples(40)
    @given(st.lists(st.integers(0, 6), min_size=1, max_size=4), st.booleans())
    def check(lengths: list[int], grad: bool) -> None:
        torch._dynamo.reset()
        compiled = torch.compile(model, backend="eager")
        run = space["_graphbreak_mark"](model, compiled, table, function)
        for number, size in enumerate(lengths):
            x = torch.linspace(-1, 1, size * 2).reshape(size, 2).requires_grad_(grad)
            y = x if number % 2 else torch.ones(size, 2)
            before = dict(vars(x))
            assert bits(run(x, y)) == bits(model(x, y))
            assert vars(x) == before

    check()
