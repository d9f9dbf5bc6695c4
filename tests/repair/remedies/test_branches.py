"""A choice that became torch.where or torch.cond gives what the branch gave, gradients too."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import pytest
import torch

from pytest_graphbreak.model.items import Break, Frame
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.repair.patches import UnfitError
from pytest_graphbreak.repair.remedies.branches import propose, to_cond, to_where
from pytest_graphbreak.repair.remedies.tree import rewriting
from pytest_graphbreak.repair.trial import Trial

pytestmark = pytest.mark.once

ONE_SIDE: Final = "if x.sum() > 0:\n    x = x * 2\nreturn x.sin()"
CHOICES: Final[dict[str, tuple[str, str, str]]] = {
    "of one side": (
        ONE_SIDE,
        "x = torch.where(x.sum() > 0, x * 2, x)",
        "x = torch.cond(x.sum() > 0, lambda: x * 2, lambda: x.clone())",
    ),
    "of both sides": (
        "if not x.any():\n    z = x.relu()\nelse:\n    z = 1 - x\nreturn z",
        "z = torch.where(torch.logical_not(x.any()), x.relu(), 1 - x)",
        "z = torch.cond(torch.logical_not(x.any()), lambda: x.relu(), lambda: 1 - x)",
    ),
    "that returns early": (
        "if x.max().item() > 0.1:\n    return x.clamp(max=0.5)\nreturn -x",
        "return torch.where(x.max().double() > 0.1, x.clamp(max=0.5), -x)",
        "return torch.cond(x.max().double() > 0.1, lambda: x.clamp(max=0.5), lambda: -x)",
    ),
    "as an expression": (
        "z = torch.neg(x) if x.min() >= y.min() else x\nreturn z * y",
        "z = torch.where(x.min() >= y.min(), torch.neg(x), x)",
        "z = torch.cond(x.min() >= y.min(), lambda: torch.neg(x), lambda: x.clone())",
    ),
    "of a tensor with dimensions": (
        "if x[:1] > 0:\n    x = x + 1\nreturn x",
        "x = torch.where((x[:1] > 0).reshape(()), x + 1, x)",
        "x = torch.cond((x[:1] > 0).reshape(()), lambda: x + 1, lambda: x.clone())",
    ),
    "of two tensors": (
        "if x.sum() > 0:\n    return x\nreturn y",
        "! may differ in shape",
        "return torch.cond(x.sum() > 0, lambda: x.clone(), lambda: y.clone())",
    ),
    "of a sine": ("if x.min() > 0:\n    x = x.sin()\nreturn x", "! or be NaN",
        "x = torch.cond(x.min() > 0, lambda: x.sin(), lambda: x.clone())"),
    "whose gradient may be NaN": (
        "if x.min() > 0:\n    x = x.sqrt()\nreturn x * y",
        "! may do more, or be NaN",
        "x = torch.cond(x.min() > 0, lambda: x.sqrt(), lambda: x.clone())",
    ),
    "in place": ("if x.sum() > 0:\n    x += y\nreturn x * 1", "! set one name", "! set one name"),
    "and later in place": ("if x.sum() > 0:\n    z = x\nelse:\n    z = y\nz += 1\nreturn z",
        "! changes a tensor in place", "! changes a tensor in place"),
    "of two tests": (
        "if x.sum() > 0 and y.sum():\n    x = x * 2\nreturn x", "! no tensor", "! no tensor"
    ),
    "of blocks": (
        "if x.sum() > 0:\n    z = x\n    w = z\nelse:\n    w = y\nreturn w", "! more", "! more"
    ),
    "with an elif": (
        "if x.sum() > 0:\n    x = x * 2\nelif y.sum() > 0:\n    x = x + 1\nreturn x",
        "! `elif`", "! `elif`"
    ),
    "of what may be no tensor": ("if flag:\n    x = x * 2\nreturn x", "! no tensor", "! no tensor"),
    "of numbers": ("s = 3 if x.sum() > 0 else 7\nreturn x * s", "! may differ", "! is no tensor"),
}  # fmt: skip
VALUES: Final = ([1.0, 2.0], [-1.0, -2.0], [0.0, 0.0], [0.5, -3.0], [math.nan, 1.0])


@pytest.mark.parametrize("name", sorted(CHOICES))
@pytest.mark.parametrize("write", [to_where, to_cond])
def test_a_branch_gives_what_it_gave(name: str, write: Any) -> None:
    body, *lines = CHOICES[name]
    line = lines[write is to_cond]
    source = "def f(x, y):\n" + "".join(f"    {text}\n" for text in body.splitlines())
    code = next(text.strip() for text in body.splitlines() if "if " in text)
    change = rewriting(write, Frame("a.py", "f", 0, code))
    if line.startswith("!"):
        with pytest.raises(UnfitError, match=line[1:].strip()):
            change(source)
        return
    changed = change(source)
    assert f"    {line}\n" in changed
    compiled = torch.compile(function(changed), backend="eager", fullgraph=True)
    for dtype in (torch.float32, torch.bfloat16):
        for values in VALUES:
            seen = results(compiled, values, dtype)
            wanted = results(function(source), values, dtype)
            torch.testing.assert_close(seen, wanted, equal_nan=True, rtol=0, atol=0)


def function(source: str) -> Callable[..., Any]:
    space: dict[str, Any] = {"torch": torch}
    exec(compile(source, "a.py", "exec"), space)
    return space["f"]  # type: ignore[no-any-return]


def results(run: Callable[..., Any], values: list[float], dtype: torch.dtype) -> list[torch.Tensor]:
    x = torch.tensor(values, dtype=dtype, requires_grad=True)
    y = torch.tensor([3.0, -4.0], dtype=dtype, requires_grad=True)
    out = run(x, y)
    out.sum().backward()
    # Of what the side that runs does not use torch.cond gives zeros, plain code nothing.
    return [out, *(torch.zeros_like(z) if z.grad is None else z.grad for z in (x, y))]


@pytest.mark.parametrize("code", ["if x.sum() > 0:", "if(x.sum() > 0):", "z = x if(t) else y"])
def test_every_branch_is_proposed_for(code: str) -> None:
    item = Break("dynamo", "data-dependent", Frame("a.py", "f", 1, code))
    titles = [patch.title for patch in propose(item, Trial(Record()))]
    assert titles == ["the branch became torch.where", "the branch became torch.cond"]


@pytest.mark.parametrize("write", [to_where, to_cond])
def test_comments_stay(write: Any) -> None:
    source = (
        "def f(x):\n    # first\n    if x.sum() > 0:  # second\n        # third\n"
        "        return x * 2  # fourth\n    # fifth\n    return x  # sixth\n"
    )
    changed = rewriting(write, Frame("a.py", "f", 3, "if x.sum() > 0:  # second"))(source)
    lines = [line.strip() for line in changed.splitlines()]
    words = ("first", "second", "third", "fourth", "fifth", "sixth")
    assert [line for line in lines if line[0] == "#"] == [f"# {word}" for word in words]
