"""Views from before a loop: copies where nothing changes them, and a reason where the loop does."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch._dynamo.config
from hypothesis import given
from hypothesis import strategies as st

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.rewrite import apply
from pytest_graphbreak.repair.rewrite.scope import UnfitError
from tests.examples import examples
from tests.repair.test_sound import bits, loaded

LINE = "while x.sum() > 1:"
SOURCE = """\
def f(x, g, most=9):
    n = 0
    {first}
    while x.sum() > 1:
        {body}
        n += 1
        if n > most:
            break
    return x * 1, n, g, v
"""
CHANGES = {
    "a row": ("v = x[0]", "x *= 0.5\nx[1] += v * 0.1"),
    "a view": ("v = x.view(-1)", "x.mul_(0.5)\nx[1] -= v[0]"),
    "a view that is carried": ("v = x.flatten()", "x *= 0.5\nv = v - 1"),
    "a transposed one": ("v = x.mT", "x *= 0.5 + 0 * v.T"),
    "another name": ("v = x", "x *= 0.5\nx -= v * 0.1"),
    "a view of a view": ("w = x[0]\nv = w[1:]", "x *= 0.5\nx[1] -= v.sum()"),
    "what a view is of": ("v = g[0]", "v.mul_(0.5)\nx = x * 0.5 + g.mean() * 0"),
    "a part": ("v, w = x.unbind(0)", "x *= 0.5\nx[1] -= w"),
    "a part of a tuple": ("v, w = (g, x[0])", "x *= 0.5\nx[1] -= w"),
    "one of several": ("v = x[0] if most > 3 else g[0]", "x *= 0.5\nx[1] -= v"),
    "an unknown call": ("v = g.helper(x)", "x *= 0.5\nx[1] -= v"),
    "a value that was set before": ("v = x[0]\nif most < 0:\n    v = g * 2", "x *= 0.5\nx[1] -= v"),
    "what may be itself": ("v = x.float()", "x *= 0.5\nx -= v * 0.1"),
    "the larger of two": ("v = max(x, g)", "x *= 0.5\nx -= v * 0.1"),
    "what was written into": ("v = torch.add(g, 1, out=x)", "x *= 0.5\nx -= v * 0.1"),
    "one of a loop": ("for v in x: w = v", "x *= 0.5\nx[1] -= w"),
}
READ = {
    "a row": ("v = g[0]", "x = x * 0.5 - v * g.mean()"),
    "two of one": ("v, w = g[0], g[1:]", "x = x * 0.5 - v * w.mean()"),
    "a diagonal": ("v = g.diagonal()", "x *= 0.5\nx -= v * g.mean()"),
    "a transposed one": ("v = g.mT", "x = x * 0.5 - (v @ g) * 0.1"),
    "a view of a view": ("w = g.view(-1)\nv = w[:2]", "x = x * 0.5 - v * w[0]"),
    "a view of what is carried": ("v = x[0]", "x = x * 0.5 - v * 0.1"),
    "in the test": ("v = g[0]", "x = x * 0.5\nif (v - g[0]).sum() > x.max():\n    break"),
    "what shares nothing": ("v = x * 2", "x *= 0.5\nx -= v * 0.1"),
    "a copy": ("v = x[0].clone()", "x *= 0.5\nx -= v * 0.1"),
}


def source_of(first: str, body: str) -> str:
    lines = [one.replace("\n", "\n    ") for one in (first,)]
    return SOURCE.format(first=lines[0], body=body.replace("\n", "\n        "))


@pytest.fixture(autouse=True)
def _compiles_numbers() -> Iterator[None]:
    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_scalar_outputs=True, recompile_limit=99):
        yield


def outcome(function: Any, args: Any) -> list[Any]:
    with torch.no_grad():
        found = function(*args)
    return [bits(one) if isinstance(one, torch.Tensor) else one for one in (*found, *args)]


@pytest.mark.parametrize("name", sorted(READ))
def test_a_view_that_is_only_read_is_a_copy_in_the_loop(name: str) -> None:
    source = source_of(*READ[name])
    changed = apply(source, "while_loop", Frame("a.py", "f", 0, LINE))
    assert changed is not None
    plain = loaded(source)["f"]
    run = torch.compile(loaded(changed)["f"], backend="eager", fullgraph=True)

    @examples(24)
    @given(st.lists(st.sampled_from([0.0, 0.25, 1.0, -2.0, 8.0]), min_size=8, max_size=8))
    def check(values: list[float]) -> None:
        args = tuple(torch.tensor(one).reshape(2, 2) for one in (values[:4], values[4:]))
        mine = copy.deepcopy(args)
        assert outcome(run, mine) == outcome(plain, args)

    check()


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_a_view_of_what_the_loop_changes_is_left(name: str) -> None:
    with pytest.raises(UnfitError, match=r"may share memory with|has another name|is set again"):
        apply(source_of(*CHANGES[name]), "while_loop", Frame("a.py", "f", 0, LINE))
