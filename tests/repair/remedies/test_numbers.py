"""Numbers that vary become tensors: arguments, closures, and variables of the module."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._dynamo.testing import CompileCounter

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.remedies import numbers
from pytest_graphbreak.repair.rewrite.helpers import helper
from tests.examples import examples
from tests.repair.remedies.sound import bits, loaded

pytestmark = pytest.mark.once

HELPERS = (helper(numbers._graphbreak_like), helper(numbers._graphbreak_as_tensors))
OFFSET = """\
import torch

python_offset = 0


def score_mod(score, b, h, q_idx, kv_idx):
    actual_q_idx = q_idx + python_offset  # BAD
    return torch.where(actual_q_idx >= kv_idx, score, 0.0)


def advance():
    global python_offset
    python_offset += 1


for python_offset in range(4):
    print(python_offset)
"""


def test_a_number_of_the_module_becomes_a_tensor() -> None:
    changed = numbers.of_module(OFFSET, Frame("a.py", "<module>", 0, "python_offset"))
    made = "python_offset_tensor = torch.tensor(python_offset)\n"
    assert changed == (
        OFFSET.replace("python_offset = 0\n", f"python_offset = 0\n{made}")
        .replace("q_idx + python_offset ", "q_idx + python_offset_tensor ")
        .replace("global python_offset\n", "global python_offset, python_offset_tensor\n")
        .replace("python_offset += 1\n", f"python_offset += 1\n    {made}")
        .replace("in range(4):\n", f"in range(4):\n    {made}")
    )


@pytest.mark.parametrize("kind", [int, float])
def test_a_number_of_the_module_is_no_reason_to_compile_again(kind: type) -> None:
    source = (
        "scale = 1\n\n\ndef f(x):\n    return x * scale\n\n\ndef set_to(n):\n    global scale\n"
    )
    changed = numbers.of_module(f"{source}    scale = n\n", Frame("a.py", "<module>", 0, "scale"))
    assert changed is not None
    space, counted = loaded(changed), CompileCounter()
    run = torch.compile(space["f"], backend=counted)
    space["set_to"](kind(0))
    for number in range(4):
        space["set_to"](kind(number))
        assert bits(run(torch.ones(3))) == bits(torch.ones(3) * kind(number))
    assert counted.frame_count == 1


@pytest.mark.parametrize(
    "source",
    ["def n(): pass\n", "import n\n", "n = 1\nprint(n)\n", "with open('a') as n:\n    pass\n"],
)
def test_what_is_no_number_or_not_read_stays(source: str) -> None:
    assert numbers.of_module(source, Frame("a.py", "<module>", 0, "n")) is None


@examples(100)
@given(
    st.sampled_from([torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8]),
    st.sampled_from([(), (3,), (2, 2)]),
    st.lists(st.sampled_from([0.1, 1.0, -2.5, 1e-12, 3.0, 2, -7, 0]), min_size=2, max_size=3),
    st.booleans(),
)
def test_numbers_that_become_tensors(
    dtype: torch.dtype, shape: tuple[int, ...], values: list[float], closed: bool
) -> None:
    torch._dynamo.reset()
    space = loaded(*HELPERS)

    def plain(x: torch.Tensor, scale: Any) -> torch.Tensor:
        return (scale(x) if closed else x * scale) + 1

    def argument(number: float) -> Any:
        return (lambda x: x * number) if closed else number

    table = {plain.__qualname__: ["scale.number" if closed else "scale"]}
    compiled = torch.compile(plain, backend="eager")
    patched = space["_graphbreak_as_tensors"](plain, compiled, table)
    x = torch.ones(shape, dtype=dtype) * 3
    for number in values:
        try:
            found = patched(x, argument(number))
        except (RuntimeError, TypeError):
            continue
        assert bits(found) == bits(plain(x, argument(number)))


@pytest.mark.parametrize("kind", [int, float])
def test_a_number_in_a_closure_is_no_reason_to_compile_again(kind: type) -> None:
    """``score_mod`` of flex_attention, which adds another number in each call."""
    counted, space = CompileCounter(), loaded(*HELPERS)

    def model(x: torch.Tensor, score_mod: Any) -> torch.Tensor:
        return torch.softmax(score_mod(x), -1)

    def make(offset: Any, scale: float = 2.0) -> Any:
        return lambda x, *, power=1: (x * scale + offset) ** power

    compiled = torch.compile(model, backend=counted, dynamic=False)
    table = {model.__qualname__: ["score_mod.offset"]}
    patched = space["_graphbreak_as_tensors"](model, compiled, table)
    x = torch.randn(3, 4)
    for number in range(4):
        score_mod = make(kind(number))
        torch.testing.assert_close(patched(x, score_mod), model(x, score_mod))
        assert score_mod.__closure__[0].cell_contents == number
    assert counted.frame_count == 1
