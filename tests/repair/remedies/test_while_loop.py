"""A loop that became torch.while_loop gives what the loop gave, whatever the inputs are."""

from __future__ import annotations

from typing import Final

import pytest
import torch
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.patch import UnfitError
from pytest_graphbreak.repair.remedies import while_loop
from pytest_graphbreak.repair.rewrite.helpers import helper
from tests.repair.remedies.loops import LOOPS
from tests.repair.remedies.sound import TENSORS, Pair, loaded, rewritten, source_of

HELPER: Final = helper(while_loop._graphbreak_while)
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
    "a loop over another name": (
        "z = x\n"
        "n = 0\n"
        "while x.max() > 0.5 and n < 4:\n"
        "    z = x\n"
        "    x = x - 1\n"
        "    n += 1\n"
        "return z + x"
    ),
    "a loop with a break": (
        "for n in range(4):\n    x = x - y.abs()\n    if x.max() < 0:\n        break\nreturn x, n"
    ),
    "a loop that returns": (
        "for n in range(4):\n    x = x - y.abs()\n    if x.max() < 0:\n        return x\nreturn x"
    ),
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
    "a loop of zeros": (
        "n = 0\n"
        "while x.double().abs().max() > 1 and n < 4:\n"
        "    y = y.floor()\n"
        "    x = x * 0.5\n"
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
    "a loop and later in place": (
        "n = 0\n"
        "while x.double().max() > 1 and n < 3:\n"
        "    x = x * 0.5\n"
        "    n += 1\n"
        "x += 1\n"
        "return x * n"
    ),
    "a loop that grows and later in place": (
        "for n in range(2):\n"
        "    if x.sum() > 1:\n"
        "        break\n"
        "    x = torch.cat([x, y])\n"
        "x += 1\n"
        "return x * n"
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
    "a loop with an else": (
        "for n in range(3):\n"
        "    x = x - y.abs()\n"
        "    if x.max() < 0:\n"
        "        break\n"
        "else:\n"
        "    x = x * 3\n"
        "return x"
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
    "a loop that divides": (
        "for n in range(4):\n"
        "    x = x * 0.5\n"
        "    if x.max().item() / y.max().item() < 0.1:\n"
        "        break\n"
        "return x, n"
    ),
    "a loop that grows": (
        "for n in range(3):\n"
        "    x = torch.cat([x, x[-1:] * y[:1]])\n"
        "    if x[-1].sum() > 1:\n"
        "        break\n"
        "return x, n"
    ),
    "a loop that grows up to a size": (
        "while x.abs().sum() < 9 and x.shape[0] < 5:\n"
        "    x = torch.cat((x, y[:1]), dim=0)\n"
        "return x * 1"
    ),
    "a loop in a loop": (
        "n = 0\n"
        "while x.double().abs().max() > 0.5 and n < 3:\n"
        "    h = 1.0\n"
        "    while (x * h).double().abs().max() > 1 and h > 0.1:\n"
        "        h *= 0.5\n"
        "    x = x * h * 0.5\n"
        "    n += 1\n"
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
}
UNFIT: Final = {
    *("a loop and later in place", "a loop in place", "a loop in place of what is made"),
    *("a loop of a step", "a loop of an index", "a loop of arithmetic"),
    *("a loop of arithmetic that is kept", "a loop of random numbers", "a loop that divides"),
    *("a loop that fails", "a loop that grows and later in place", "a loop with an else"),
}
RAISES: Final = {
    *("a loop in a loop", "a loop of item", "a loop that grows", "a loop that grows up to a size"),
    "a loop of a flag that is a tensor",
}
"""What is rewritten, and refused by an op or a check whenever it runs."""


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_loop_gives_what_it_gave(name: str) -> None:
    changed = rewritten(while_loop.CHANGE, PROGRAMS[name])
    assert (changed is None) == (name in UNFIT)
    if changed is None:
        return
    pair = Pair(source_of(PROGRAMS[name]), changed, HELPER)

    @settings(max_examples=6, deadline=None, phases=(Phase.explicit, Phase.generate))
    @example(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), False)
    @example(torch.tensor([-1.0, -2.0]), torch.tensor([-3.0, 4.0]), False)
    @given(TENSORS, TENSORS, st.booleans())
    def check(x: torch.Tensor, y: torch.Tensor, grads: bool) -> None:
        pair.check(x, y, grads=grads)

    check()
    assert (pair.held == 0) == (name in RAISES)


OPEN: Final = {
    "greedy decoding into a buffer": "it holds `out",
    "jacobi in place": "a tensor would not compute like the number x",
    "jacobi with a view": "a tensor would not compute like the number x",
    "a view of what changes": "it holds `u",
    "a history": "does something else than compute",
    "an error of one element": "a tensor would not compute like the number worst",
    "random steps": "draws random numbers",
    "accept or reject": "draws random numbers",
    "a draw on one side": "draws random numbers",
    "a draw of an unknown shape": "draws random numbers",
    "an else that raises": "has an `else`",
    "an else that sets": "has an `else`",
    "a raise behind": "no `return` follows it",
    "an index behind and": "may raise or draw where Python leaves it out",
    "a relative limit": "computes with numbers that tensors hold",
    "in place of what is made": "it holds `torch.zeros",
    "backtracking line search": "a tensor would not compute like the number t",
}
"""Loops of numerical code that stay, each with the reason."""
RAISE: Final = {
    *("a return of another name", "an error read with item", "a search along a line"),
    *("a loop with a break in a loop", "a text that grows", "beams that grow", "a row that grows"),
    *("a text up to a size", "a text that is read whole", "a text without an end"),
    *("another number at first", "a test of a shape inside", "a growing result"),
}
"""Those that torch refuses as an operator while the graph is made: they grow, or branch in it."""


@pytest.mark.parametrize("name", sorted(LOOPS))
def test_a_loop_of_numerical_code(name: str) -> None:
    line, source, inputs = LOOPS[name]
    place = Frame("a.py", "f", 0, line)
    if name in OPEN:
        with pytest.raises(UnfitError, match=OPEN[name]):
            while_loop.CHANGE(source, place)
        return
    changed = while_loop.CHANGE(source, place)
    assert changed is not None
    plain, patched = loaded(source)["f"], loaded(HELPER, changed)["f"]
    run = torch.compile(patched, backend="eager", fullgraph=True)
    if name in RAISE:
        with pytest.raises((RuntimeError, TypeError, torch._dynamo.exc.TorchDynamoException)):
            run(*eval(f"({inputs[0]},)", {"torch": torch}))
        return
    for one in inputs:
        given = eval(f"({one},)", {"torch": torch})
        torch.manual_seed(0)
        wanted = plain(*given)
        torch.manual_seed(0)
        torch.testing.assert_close(run(*given), wanted, equal_nan=True, msg=changed)
