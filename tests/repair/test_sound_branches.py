"""No branch that became an op gives another result without an error, whatever the inputs are.

Each program is run as it is and rewritten, compiled as one graph, with drawn values, dtypes and
shapes: results, gradients, and what the arguments are afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch._dynamo.config
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.rewrite import apply
from pytest_graphbreak.repair.rewrite.scope import UnfitError
from tests.repair.test_sound import LISTS, bits, loaded

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64]
TENSORS = st.builds(
    lambda values, dtype, shape: (
        torch.tensor(values).nan_to_num(7, 9, -9).to(dtype).reshape(shape)
        if dtype == torch.int64
        else torch.tensor(values, dtype=dtype).reshape(shape)
    ),
    LISTS,
    st.sampled_from(DTYPES),
    st.sampled_from([(2,), (2, 1), (1, 2)]),
)

PROGRAMS = {
    "of one side": "if x.sum() > 0:\n    x = x * 2.0\nreturn x + 1",
    "of both sides": "if x.sum() > 0:\n    z = x * y\nelse:\n    z = x - y\nreturn z",
    "of a limit that is no float32": "if x.max().item() > 0.1:\n    x = -x\nreturn x + 0",
    "of a limit that is a tensor": "if float(x.max()) >= y.min().item():\n    x = x + 1\nreturn x",
    "of no number": "if not x.sum() >= 0:\n    x = x * 3\nreturn x",
    "of several": "if x.sum() > 0 and (y.sum() > 0 or flag):\n    x = x - 1\nreturn x + 0",
    "of a list": "if x.sum() > 0 and zeros:\n    x = x + 5\nreturn x + 0",
    "of the value itself": "if x.max():\n    x = x * 2\nreturn x",
    "that returns": "if x.sum() > 0:\n    return x * 2\nelse:\n    return y * 1.5",
    "that returns early": "if x.sum() > 0:\n    return x * 2\nreturn y * 1.5",
    "that returns an argument": "if x.sum() > 0:\n    return x, y\nreturn y, y",
    "that returns a part": "if x.sum() > 0:\n    z = x + y\n    return z, y\nreturn x - y, y",
    "of roots": "if x.min() > 0:\n    z = x.sqrt()\nelse:\n    z = x * 2\nreturn z",
    "in place": "if x.sum() > 0:\n    x += y\nreturn x * 1",
    "in place of both": "if x.sum() > 0:\n    x *= y\nelse:\n    x -= y\nreturn x * 1",
    "that fills": "if x.sum() > 0:\n    y.fill_(3)\nreturn y + x",
    "that fills with a number": "n = x.max().item()\nif n > y.min():\n    x.fill_(n)\nreturn x + 0",
    "that adds in place": "if x.sum() > 0:\n    y.add_(x, alpha=2)\ny += 1\nreturn y + 0",
    "that clamps in place": "if x.sum() > 0:\n    x.clamp_(min=-1, max=0.5)\nreturn x * 1",
    "of a number that was read": "n = x.max().item()\nif n > 0.1:\n    y = y * 2\nreturn y, n",
    "of a part of one": "n = x.double().sum().item() / 3\nif n < 0.7:\n    y = y * 2\nreturn y + n",
    "of two that were read": "n, m = x.max().item(), float(y.sum())\nif n >= m:\n    y = y * 2\n"
    "return y + 0",
    "and later in place": "if x.sum() > 0:\n    z = x\nelse:\n    z = y\nz += 1\nreturn z * 1",
    "a method in place": "if x.sum() > 0:\n    z = x.mul_(2)\nelse:\n    z = x + 0\nreturn z * 1",
    "of numbers": "if x.sum() > 0:\n    s = 0.1\nelse:\n    s = 0.7\nreturn x * s",
    "of whole numbers": "if x.sum() > 0:\n    s = 3\nelse:\n    s = 7\nreturn x * s",
    "of two kinds": "if x.sum() > 0:\n    s = 3\nelse:\n    s = 0.5\nreturn x * s",
    "of random numbers": "if x.sum() > 0:\n    z = torch.rand_like(y)\nelse:\n    z = y + 0\n"
    "return torch.stack([z.double().sum(), torch.rand(()).double()])",
    "of shapes": "if x.sum() > 0:\n    z = x.double().sum()\nelse:\n    z = x.double()\n"
    "return z + y",
    "of what may be None": "w = (flag or None) and y\nif w is not None and w.sum() > 0:\n"
    "    x = x * w\nreturn x + 0",
    "of what may be None, that returns": "w = (flag or None) and y\n"
    "if w is not None and w.sum() > 0 and x.sum() > 0:\n    return x * w\nreturn x + 0",
    "as an expression": "z = x * 2 if x.sum() > 0 else y + 1\nreturn z",
    "of blocks": "if x.sum() > 0:\n    z = x * 2\n    w = z + y\nelse:\n    w = y - 1\nreturn w",
    "of what is set before": "w = y * 1\nif x.sum() > 0:\n    z = x * 2\n    w = z + y\nreturn w",
    "that prints": "w = y * 1\nif x.sum() > 0:\n    seen.append(1)\n    w = x * 1\n"
    "return w + len(seen)",
    "a loop": "n = 0\nwhile x.double().abs().max() > 0.1 and n < 4:\n    x = x * 0.5\n    n += 1\n"
    "return x * n",
    "a loop in place": "n = 0\nwhile x.double().abs().max() > 0.1 and n < 4:\n    x *= 0.5\n"
    "    n += 1\nreturn x * 1",
    "a loop of a step": "h = 0.3\nwhile y.double().max() * h > 0.1:\n    h *= 0.5\nreturn x * h",
    "a loop over another name": "z = x\nn = 0\nwhile x.max() > 0.5 and n < 4:\n    z = x\n"
    "    x = x - 1\n    n += 1\nreturn z + x",
    "a loop with a break": "for n in range(4):\n    x = x - y.abs()\n    if x.max() < 0:\n"
    "        break\nreturn x, n",
    "a loop that returns": "for n in range(4):\n    x = x - y.abs()\n    if x.max() < 0:\n"
    "        return x\nreturn x",
    "a loop that returns something else": "for n in range(4):\n    x = x - y.abs()\n"
    "    if x.max() < 0:\n        return x * 2\nreturn x + 1",
    "a loop of float": "e = 1.0\nn = 0\nwhile e > 0.1 and n < 4:\n    x = x * 0.5\n"
    "    e = float(x.abs().max())\n    n += 1\nreturn x * e",
    "a loop of item": "for n in range(4):\n    x = x * 0.5\n    e = x.max().item()\n"
    "    if e < 0.1:\n        break\nreturn x + e",
    "a loop until close": "n = 0\nwhile not torch.allclose(x, y, atol=0.1) and n < 4:\n"
    "    x = (x + y) / 2\n    n += 1\nreturn x",
    "a loop until equal": "n = 0\nwhile not torch.equal(x, y) and n < 4:\n    x = x * 1 + 0\n"
    "    y = y.floor()\n    n += 1\nreturn x + y",
    "a loop of zeros": "n = 0\nwhile x.double().abs().max() > 1 and n < 4:\n    y = y.floor()\n"
    "    x = x * 0.5\n    n += 1\nreturn x + y",
    "a loop of what begins without a gradient": "h = torch.zeros(2).to(y)\nn = 0\n"
    "while h.double().sum() < 1 and n < 3:\n    h = h + y.flatten() * 0.5\n    n += 1\n"
    "return x + h.sum()",
    "a loop and later in place": "n = 0\nwhile x.double().max() > 1 and n < 3:\n    x = x * 0.5\n"
    "    n += 1\nx += 1\nreturn x * n",
    "a loop that grows and later in place": "for n in range(2):\n    if x.sum() > 1:\n"
    "        break\n    x = torch.cat([x, y])\nx += 1\nreturn x * n",
    "a loop of a flag": "done = False\nn = 0\nwhile not done and n < 4:\n    x = x * 0.5\n"
    "    done = x.abs().max().item() < 0.1\n    n += 1\nreturn x, done",
    "a loop of a flag that is a tensor": "done = False\nfor n in range(4):\n    x = x * 0.5\n"
    "    done = x.abs().max() < 0.1\n    if done:\n        break\nreturn x, done",
    "a loop with an else": "for n in range(3):\n    x = x - y.abs()\n    if x.max() < 0:\n"
    "        break\nelse:\n    x = x * 3\nreturn x",
    "a loop that fails": "for n in range(3):\n    x = x - y.abs()\n    if x.max() < 0:\n"
    "        break\nelse:\n    raise RuntimeError(f'not in {3}')\nreturn x",
    "a loop with two breaks": "for n in range(4):\n    x = x - y.abs()\n    if x.max() < 0:\n"
    "        continue\n    if x.min() < -1:\n        x = x + 1\n        break\n    x = x * 2\n"
    "    if x.sum() > 9:\n        break\nreturn x, n",
    "a loop of an index": "n = 0\nz = x.flatten()\nwhile n < 2 and z[n] > y.min():\n    n += 1\n"
    "return z, n",
    "a loop of arithmetic": "for n in range(4):\n    x = x * 0.5\n"
    "    if abs(x.sum().item() - y.sum().item()) < 0.1 * max(1.0, y.max().item()):\n"
    "        break\nreturn x, n",
    "a loop of arithmetic that is kept": "for n in range(4):\n    x = x * 0.5\n"
    "    e = max(x.max().item(), 2 * y.min().item()) / 2\n    if e < 0.1:\n        break\n"
    "return x, e",
    "a loop that divides": "for n in range(4):\n    x = x * 0.5\n"
    "    if x.max().item() / y.max().item() < 0.1:\n        break\nreturn x, n",
    "a loop that grows": "for n in range(3):\n    x = torch.cat([x, x[-1:] * y[:1]])\n"
    "    if x[-1].sum() > 1:\n        break\nreturn x, n",
    "a loop that grows up to a size": "while x.abs().sum() < 9 and x.shape[0] < 5:\n"
    "    x = torch.cat((x, y[:1]), dim=0)\nreturn x * 1",
    "a loop in a loop": "n = 0\nwhile x.double().abs().max() > 0.5 and n < 3:\n    h = 1.0\n"
    "    while (x * h).double().abs().max() > 1 and h > 0.1:\n        h *= 0.5\n"
    "    x = x * h * 0.5\n    n += 1\nreturn x, n",
    "a loop of random numbers": "n = 0\nwhile x.double().max() < 2 and n < 4:\n"
    "    x = x + torch.rand_like(y)\n    n += 1\nreturn x * 1",
    "a loop in place of what is made": "n = 0\nwhile x.double().sum() > 1 and n < 4:\n"
    "    x = torch.zeros_like(x).add_(x - 1)\n    n += 1\nreturn x * 1",
}
KINDS = ("where", "cond", "while_loop", "trained_loop")
RAISES = {
    ("where", "of a list"),
    ("where", "of shapes"),
    ("cond", "of a list"),
    ("cond", "of shapes"),
    ("cond", "of numbers"),
    ("cond", "of two kinds"),
    ("cond", "that prints"),
}
"""What is written, and refused by an op or a check whenever it runs."""


@pytest.fixture(autouse=True)
def _numbers_are_nodes() -> Iterator[None]:
    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_scalar_outputs=True, recompile_limit=99):
        yield


def space() -> dict[str, Any]:
    return {"flag": True, "zeros": [0.0], "seen": []}


def source_of(name: str) -> tuple[str, Frame]:
    body = PROGRAMS[name]
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    line = next(
        one
        for one in body.splitlines()
        if " if " in one or one.startswith(("if", "while")) or one.strip().startswith("if ")
    )
    return f"def f(x, y):\n{lines}", Frame("a.py", "f", 0, line.strip())


def outcome(function: Any, x: torch.Tensor, y: torch.Tensor, grads: bool) -> Any:
    """Everything that a caller sees: the result, the arguments, gradients, random numbers."""
    x, y = x.clone(), y.clone()
    grads = grads and x.is_floating_point() and y.is_floating_point()
    given = [x.requires_grad_(), y.requires_grad_()] if grads else [x, y]
    torch.manual_seed(0)
    with torch.set_grad_enabled(grads):
        found = function(x, y)
    parts = found if isinstance(found, tuple) else (found,)
    seen: list[Any] = [bits(one) if isinstance(one, torch.Tensor) else repr(one) for one in parts]
    if grads and parts[0].requires_grad:
        parts[0].sum().backward()
        # Of what the side that runs does not use: torch.cond gives zeros, plain code nothing.
        # Plus zero: the sign of a gradient that is zero depends on the order of its sums.
        given += [torch.zeros_like(one) if one.grad is None else one.grad + 0.0 for one in (x, y)]
    return [*seen, *map(bits, given), torch.rand(()).item()]


@pytest.mark.parametrize("name", sorted(PROGRAMS))
@pytest.mark.parametrize("kind", KINDS)
def test_a_branch_that_is_an_op(kind: str, name: str) -> None:
    source, where = source_of(name)
    try:
        changed = apply(source, kind, where)
    except UnfitError:
        return
    if changed is None:
        return
    plain = loaded(source)
    patched = loaded(changed)
    plain.update(space())
    patched.update(space())
    run = torch.compile(patched["f"], backend="eager", fullgraph=True)
    held = 0

    @settings(max_examples=6, deadline=None, phases=(Phase.explicit, Phase.generate))
    @example(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), False)
    @example(torch.tensor([-1.0, -2.0]), torch.tensor([-3.0, 4.0]), False)
    @given(TENSORS, TENSORS, st.booleans())
    def check(x: torch.Tensor, y: torch.Tensor, grads: bool) -> None:
        nonlocal held
        try:
            found = outcome(run, x, y, grads)
        except Exception:
            return
        held += 1
        assert found == outcome(plain["f"], x, y, grads)

    check()
    # An error is allowed for an input; a rewrite that gives nothing else is broken.
    assert (held == 0) == ((kind, name) in RAISES)
