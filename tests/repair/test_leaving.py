"""What is returned from the middle of a loop or behind it: numbers stay numbers of their type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch._dynamo.config
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.rewrite import apply
from pytest_graphbreak.repair.rewrite.scope import UnfitError
from tests.examples import examples
from tests.repair.test_sound import bits, loaded

LINE = "if x.sum() < 1:"
SOURCE = """\
def f(x, most=4, other=2.5):
    for k in range(4):
        x = x * 0.5
        if x.sum() < 1:
            return {inside}
    return {behind}
"""
PAIRS = {
    "the round, or how many": ("x, k", "x, 4"),
    "the round, or an argument": ("x, k", "x, most"),
    "computed from the round": ("x, 2 * k + 1", "x, -k"),
    "whether it was left": ("x, True, k", "x, False, k"),
    "the number alone": ("k", "-1"),
    "two numbers": ("k, k * 0.1, x", "most, other, x"),
    "a tensor beside": ("x * 2, k", "x - 1, 4"),
    "an argument, or a number": ("x, other", "x, 0.5"),
}


@pytest.fixture(autouse=True)
def _compiles_numbers() -> Iterator[None]:
    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_scalar_outputs=True, recompile_limit=99):
        yield


def outcome(function: Any, value: float, **given: Any) -> list[Any]:
    with torch.no_grad():
        found = function(torch.full((3,), value), **given)
    parts = found if isinstance(found, tuple) else (found,)
    return [bits(one) if isinstance(one, torch.Tensor) else [type(one), one] for one in parts]


@pytest.mark.parametrize("name", sorted(PAIRS))
def test_a_number_is_chosen_as_one(name: str) -> None:
    inside, behind = PAIRS[name]
    source = SOURCE.format(inside=inside, behind=behind)
    changed = apply(source, "while_loop", Frame("a.py", "f", 0, LINE))
    assert changed is not None
    plain = loaded(source)["f"]
    run = torch.compile(loaded(changed)["f"], backend="eager", fullgraph=True)

    @examples(30)
    @example(100.0)
    @example(float("nan"))
    @given(st.sampled_from([0.0, 0.5, 1.0, 2.0, 5.0, -1.0]))
    def check(value: float) -> None:
        assert outcome(run, value) == outcome(plain, value)

    check()
    used = [one for one in ("most", "other") if one in inside + behind]
    for one in used:
        with pytest.raises(torch._dynamo.exc.Unsupported):
            run(torch.ones(3), **{one: torch.ones(())})
    assert not used or outcome(run, 100.0, **{used[0]: 7 if used[0] == "most" else 7.5})


@pytest.mark.parametrize("behind", ["x, None", "x, 0.5", "x, 'none'", "x, len(x)", "x, True"])
def test_a_number_or_something_else_is_left(behind: str) -> None:
    source = SOURCE.format(inside="x, k", behind=behind)
    with pytest.raises(UnfitError, match=r"`.*` is returned, or another type"):
        apply(source, "while_loop", Frame("a.py", "f", 0, LINE))
