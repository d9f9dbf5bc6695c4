"""A loop that became torch.while_loop gives what the loop gave, whatever the inputs are.

All loops run with the operators' meaning in Python, which is quick; a sample of them, and at night
all, compiled as torch runs them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

import pytest
import torch

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.patch import UnfitError
from pytest_graphbreak.repair.remedies import while_loop
from pytest_graphbreak.repair.rewrite.helpers import helper
from tests.examples import sample
from tests.repair.remedies.loops import LOOPS
from tests.repair.remedies.sound import (
    Pair,
    compare,
    is_a_place,
    loaded,
    outcome,
    rewritten,
    source_of,
)

pytestmark = pytest.mark.once

HELPERS: Final = (helper(while_loop._graphbreak_state), helper(while_loop._graphbreak_while))
PROGRAMS: Final[dict[str, str]] = {
    "a loop": (
        "n = 0\n"
        "while x.double().abs().max() > 0.1 and n < 4:\n"
        "    x = x * 0.5\n"
        "    n += 1\n"
        "return x * n"
    ),
    "a loop in place": (
        "n = 0\n"
        "while x.double().abs().max() > 0.1 and n < 4:\n"
        "    x *= 0.5\n"
        "    n += 1\n"
        "return x * 1"
    ),
    "a loop of a step": ("h = 0.3\nwhile y.double().max() * h > 0.1:\n    h *= 0.5\nreturn x * h"),
    "a loop that returns something else": (
        "for n in range(4):\n"
        "    x = x - y.abs()\n"
        "    if x.max() < 0:\n"
        "        return x * 2\n"
        "return x + 1"
    ),
    "a loop of float": (
        "e = 1.0\n"
        "n = 0\n"
        "while e > 0.1 and n < 4:\n"
        "    x = x * 0.5\n"
        "    e = float(x.abs().max())\n"
        "    n += 1\n"
        "return x * e"
    ),
    "a loop of item": (
        "for n in range(4):\n"
        "    x = x * 0.5\n"
        "    e = x.max().item()\n"
        "    if e < 0.1:\n"
        "        break\n"
        "return x + e"
    ),
    "a loop until close": (
        "n = 0\n"
        "while not torch.allclose(x, y, atol=0.1) and n < 4:\n"
        "    x = (x + y) / 2\n"
        "    n += 1\n"
        "return x"
    ),
    "a loop until equal": (
        "n = 0\n"
        "while not torch.equal(x, y) and n < 4:\n"
        "    x = x * 1 + 0\n"
        "    y = y.floor()\n"
        "    n += 1\n"
        "return x + y"
    ),
    "a loop of what begins without a gradient": (
        "h = torch.zeros(2).to(y)\n"
        "n = 0\n"
        "while h.double().sum() < 1 and n < 3:\n"
        "    h = h + y.flatten() * 0.5\n"
        "    n += 1\n"
        "return x + h.sum()"
    ),
    "a loop of a flag": (
        "done = False\n"
        "n = 0\n"
        "while not done and n < 4:\n"
        "    x = x * 0.5\n"
        "    done = x.abs().max().item() < 0.1\n"
        "    n += 1\n"
        "return x, done"
    ),
    "a loop of a flag that is a tensor": (
        "done = False\n"
        "for n in range(4):\n"
        "    x = x * 0.5\n"
        "    done = x.abs().max() < 0.1\n"
        "    if done:\n"
        "        break\n"
        "return x, done"
    ),
    "a loop that fails": (
        "for n in range(3):\n"
        "    x = x - y.abs()\n"
        "    if x.max() < 0:\n"
        "        break\n"
        "else:\n"
        "    raise RuntimeError(f'not in {3}')\n"
        "return x"
    ),
    "a loop with two breaks": (
        "for n in range(4):\n"
        "    x = x - y.abs()\n"
        "    if x.max() < 0:\n"
        "        continue\n"
        "    if x.min() < -1:\n"
        "        x = x + 1\n"
        "        break\n"
        "    x = x * 2\n"
        "    if x.sum() > 9:\n"
        "        break\n"
        "return x, n"
    ),
    "a loop of an index": (
        "n = 0\nz = x.flatten()\nwhile n < 2 and z[n] > y.min():\n    n += 1\nreturn z, n"
    ),
    "a loop of arithmetic": (
        "for n in range(4):\n"
        "    x = x * 0.5\n"
        "    if abs(x.sum().item() - y.sum().item()) < 0.1 * max(1.0, y.max().item()):\n"
        "        break\n"
        "return x, n"
    ),
    "a loop of arithmetic that is kept": (
        "for n in range(4):\n"
        "    x = x * 0.5\n"
        "    e = max(x.max().item(), 2 * y.min().item()) / 2\n"
        "    if e < 0.1:\n"
        "        break\n"
        "return x, e"
    ),
    "a loop that grows": (
        "for n in range(3):\n"
        "    x = torch.cat([x, x[-1:] * y[:1]])\n"
        "    if x[-1].sum() > 1:\n"
        "        break\n"
        "return x, n"
    ),
    "a loop of random numbers": (
        "n = 0\n"
        "while x.double().max() < 2 and n < 4:\n"
        "    x = x + torch.rand_like(y)\n"
        "    n += 1\n"
        "return x * 1"
    ),
    "a loop in place of what is made": (
        "n = 0\n"
        "while x.double().sum() > 1 and n < 4:\n"
        "    x = torch.zeros_like(x).add_(x - 1)\n"
        "    n += 1\n"
        "return x * 1"
    ),
    "a loop of two returns": (
        "for n in range(6):\n"
        "    x = x * 0.5\n"
        "    if x.max() < 0.1:\n"
        "        return x * 2\n"
        "    if x.min() < -1:\n"
        "        return x - 5\n"
        "return x + 1"
    ),
    "a loop that nothing follows": (
        "for n in range(2):\n    x = x * 0.5\n    if x.max() < 0.1:\n        return x"
    ),
    "a break below another if": (
        "for n in range(6):\n"
        "    x = x + 1\n"
        "    if x.sum() > 0:\n"
        "        if x.max() > 5:\n"
        "            break\n"
        "    x = x * 2\n"
        "return x"
    ),
    "a counter that is set": (
        "for n in range(6):\n"
        "    n += 1\n"
        "    x = x + n\n"
        "    if x.max() > 30:\n"
        "        break\n"
        "return x, n"
    ),
    "a counter that is set before": (
        "n = 7\n"
        "for n in range(len(y.shape) - 1):\n"
        "    x = x + n\n"
        "    if x.max() > 30:\n"
        "        break\n"
        "return x, n"
    ),
    "a return in a loop inside": (
        "for n in range(6):\n"
        "    if x.max() > 30:\n"
        "        break\n"
        "    for k in range(2):\n"
        "        x = x + k\n"
        "        if k == 1:\n"
        "            return x\n"
        "return x"
    ),
    "another name changed in place later": (
        "y = x\nwhile x.max() < 3:\n    x = x + 1\ny += 1\nreturn x, y"
    ),
    "a range with a step": (
        "for n in range(4, 1, -1):\n    x = x + n\n    if x.max() > 30:\n        break\nreturn x, n"
    ),
    "a continue below another if": (
        "for n in range(6):\n"
        "    x = x + 1\n"
        "    if x.sum() > 3:\n"
        "        if x.min() > 0:\n"
        "            continue\n"
        "        x = x - 2\n"
        "    x = x * 2\n"
        "    if x.max() > 30:\n"
        "        break\n"
        "return x"
    ),
    "an elif": (
        "for n in range(6):\n"
        "    if x.sum() > 3:\n"
        "        x = x + 1\n"
        "    elif x.min() > 0:\n"
        "        x = x * 3\n"
        "    x = x * 2\n"
        "    if x.max() > 30:\n"
        "        break\n"
        "return x"
    ),
    "a name set on one side": (
        "for n in range(6):\n"
        "    if x.sum() > 0:\n"
        "        z = x * 2\n"
        "    x = x + 1\n"
        "    if x.max() > 3:\n"
        "        break\n"
        "    if x.sum() > 1:\n"
        "        x = x + z\n"
        "return x"
    ),
}
UNFIT: Final[dict[str, str]] = {
    "a loop of two returns": "returns different values",
    "a loop that nothing follows": "no `return` follows it",
    "a break below another if": "`break` in it is not at the end",
    "a counter that is set": "sets n, which counts",
    "a counter that is set before": "n is set before it",
    "a return in a loop inside": "is left in another way too",
    "another name changed in place later": "x is changed in place later",
    "a range with a step": "goes over `range",
    "a continue below another if": "`continue` in it is not at the end",
    "an elif": "it has an `elif`",
    "a name set on one side": "z is set on one side only",
    "a loop in place": "a tensor would not compute like the number x",
    "a loop in place of what is made": "it holds `torch.zeros_like",
    "a loop of a step": "a tensor would not compute like the number h",
    "a loop of an index": "may raise or draw where Python leaves it out",
    "a loop of arithmetic": "computes with numbers that tensors hold",
    "a loop of arithmetic that is kept": "computes with numbers that tensors hold",
    "a loop of random numbers": "draws random numbers",
    "a loop that fails": "has an `else`",
}
"""What stays as it is, each with the reason."""
RAISES: Final[dict[str, str]] = {
    "a loop of item": "numbers are to be",
    "a loop that grows": "another shape",
    "a loop of a flag that is a tensor": "numbers are to be",
}
"""What raises when it is rewritten, for each input where a round runs, while the loop computes: a
patch that raises is not kept, so nothing is lost but the time of its trial."""
COMPILED: Final = {"a loop", "a loop of a flag", "a loop of float", "a loop with two breaks"}


@pytest.fixture
def _in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give both operators their meaning, without a graph; a carried value keeps its shape."""

    def loop(goes_on: Callable[..., Any], body: Callable[..., Any], state: Any) -> Any:
        for _ in range(500):
            if not goes_on(*state):
                return state
            new = body(*state)
            if [(x.shape, x.dtype) for x in new] != [(x.shape, x.dtype) for x in state]:
                raise RuntimeError("a value has another shape or dtype after a round")
            state = new
        pytest.fail("the loop does not end")

    def cond(test: Any, yes: Callable[..., Any], no: Callable[..., Any], operands: Any) -> Any:
        return (yes if bool(test) else no)(*operands)

    module = sys.modules["torch._higher_order_ops.while_loop"]
    monkeypatch.setattr(module, "while_loop", loop)
    monkeypatch.setattr(torch, "cond", cond)


@pytest.mark.usefixtures("_in_python")
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_loop_gives_what_it_gave(name: str) -> None:
    body, unfit = PROGRAMS[name], UNFIT.get(name)
    pair = compare(while_loop.CHANGE, body, unfit, *HELPERS, most=200, compiled=False)
    if pair is not None:
        pair.check_errors(RAISES.get(name))


@pytest.mark.parametrize("name", sample(sorted({*PROGRAMS} - {*UNFIT} - {*RAISES}), COMPILED))
def test_a_loop_is_an_operator(name: str) -> None:
    changed = rewritten(while_loop.CHANGE, PROGRAMS[name])
    pair = Pair(source_of(PROGRAMS[name]), changed, *HELPERS)
    for grads in (False, True):
        pair.check(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), grads=grads)
        pair.check(torch.tensor([-1.0, -2.0]), torch.tensor([-3.0, 4.0]), grads=grads)
    pair.check_errors(OPERATOR.get(name))


OPERATOR: Final[dict[str, str]] = {
    "a break before a name is set": "Could not guard on data-dependent expression",
    "a loop with a break in a loop": "Data-dependent branching",
    "a search along a line": "Data-dependent branching",  # a loop in a round stays one of Python
}
"""What only torch refuses as an operator."""
OPEN: Final = {
    "greedy decoding into a buffer": "it holds `out",
    "a history": "does something else than compute",
}
"""Loops of numerical code that stay, each with the reason."""
RAISE: Final[dict[str, str]] = {"a return of another name": "'int' object has no attribute 'clone'"}
"""Loops that compute, and raise when they are rewritten, for each input where a round runs: no
patch is kept that raises."""
SAMPLE: Final = {"newton that counts", "k-means", "the same return twice"}


def as_operator(source: str) -> str | None:
    line = next(line.strip() for line in source.splitlines() if is_a_place(line.strip()))
    return while_loop.CHANGE(source, Frame("a.py", "f", 0, line))


def arguments(expressions: str) -> tuple[Any, ...]:
    return tuple(eval(f"({expressions},)", {"torch": torch}))


@pytest.mark.usefixtures("_in_python")
@pytest.mark.parametrize("name", sorted(LOOPS))
def test_a_loop_of_numerical_code(name: str) -> None:
    source, inputs = LOOPS[name]
    if name in OPEN:
        with pytest.raises(UnfitError, match=OPEN[name]):
            as_operator(source)
        return
    pair = Pair(source, as_operator(source), *HELPERS, compiled=False)
    for expressions in inputs:
        pair.check(*arguments(expressions))
    if name in RAISE:
        outcome(loaded(source)["f"], arguments(inputs[0]))  # it computes
        assert any(RAISE[name] in error for error in pair.errors)
    else:
        assert not pair.errors


@pytest.mark.parametrize("name", sample(sorted({*LOOPS} - {*OPEN} - {*RAISE}), SAMPLE))
def test_a_loop_of_numerical_code_is_an_operator(name: str) -> None:
    source, inputs = LOOPS[name]
    pair = Pair(source, as_operator(source), *HELPERS)
    for expressions in inputs:
        pair.check(*arguments(expressions))
    pair.check_errors(OPERATOR.get(name))
