"""What is written later says what it would have said, in the same order, and changes no result."""

from __future__ import annotations

import contextlib
import io
import warnings
from typing import Any, Final

import pytest
import torch
import torch._dynamo.config
from hypothesis import Phase, example, given, settings

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.remedies import later
from pytest_graphbreak.repair.rewrite.helpers import helper
from tests.examples import examples
from tests.repair.remedies.sound import LISTS, bits, loaded

pytestmark = pytest.mark.once

HEAD: Final = """\
import logging
import warnings
logger = logging.getLogger("a")
losses, seen = [], []
steps = 0
scale = torch.ones(2)


class Log:
    def info(self, text, *values):
        print(text % values)


class Meter:
    def __init__(self):
        self.total, self.name, self.parts, self.log = 0, "m", [], Log()

    @property
    def half(self):
        return self.total / 2

    def average(self, n=2):
        return self.total / n

    def __call__(self, n):
        self.total += n
        return self.total > 3


meter = Meter()


def bump():
    global steps
    steps += 1
    meter.total += 1
    return steps


"""
LATER: Final[dict[str, str]] = {
    "prints": ("y = x * 2\nprint('y', y.mean().item())\nreturn y + 1"),
    "prints a text": ("y = x * 2\nprint(f'{y.sum().item():.3f}', tuple(y.shape))\nreturn y"),
    "prints a number that is read": (
        "n, m = x.max().item(), x.shape[0]\nprint(n, m + 1)\nreturn x * m"
    ),
    "prints below a number": (
        "n = x.size(0)\nif n % 2 == 0:\n    print(n, x.sum().item())\nreturn x"
    ),
    "prints in a loop": (
        "for n in range(3):\n    x = x * 2\n    print(n, x.sum().item())\nreturn x"
    ),
    "prints two names of one line": (
        "for n in (1, 2):\n    print(n, x.min().item())\n    x = x + n\nreturn x"
    ),
    "collects": ("y = torch.sin(x)\nlosses.append(y.sum().item())\nreturn y"),
    "warns": ("y = x.exp()\nif y.max() > 2:\n    warnings.warn('large')\nreturn y"),
    "prints on one side": (
        "if x.max() > 1:\n"
        "    print('large', x.max().item())\n"
        "else:\n"
        "    print('small')\n"
        "return x - 1"
    ),
    "computes beside it": ("if x.isnan().any():\n    print('NaN', x.sum().item())\nreturn x * 2"),
    "changes it afterwards": ("y = x * 2\nprint(y.sum().item())\ny.add_(1)\nreturn y"),
    "changes a view": ("y = x * 2\nz = y.view(-1)\nprint(y.sum().item())\nz.mul_(3)\nreturn y"),
    "changes another name": ("y = x\nprint(y.sum().item())\nx += 1\nreturn y"),
    "changes a tensor that it prints whole": ("y = x * 2\nprint(y)\ny[0] = 3\nreturn y"),
    "changes a tensor of the module": (
        "print(scale.sum().item(), x.sum().item())\nscale.mul_(2)\nreturn x * scale"
    ),
    "counts": ("global steps\nprint(steps, x.sum().item())\nsteps += 1\nreturn x * 2"),
    "binds it again": ("y = x * 2\nprint(y.sum().item())\ny = y + 1\nreturn y"),
    "prints what the line itself changes": (
        "if meter(x.sum().item()):\n    print(meter.total)\nreturn x * 2"
    ),
    "prints what the line and others change": (
        "meter.total += 1\nif meter(x.sum().item()):\n    print(meter.total)\nreturn x * 2"
    ),
    "prints what a function changes": (
        "if x.sum() > bump():\n    print(meter.total)\nreturn x * 2"
    ),
    "collects what is returned": ("losses.append(x.sum().item())\nreturn x * len(losses)"),
}
OTHER: Final = """

def other(y):
    y.mul_(2)


def must_be_small(y):
    if not bool((y < 3).all()):
        raise ValueError(f"{y.max().item()} is too large")
    return y


log = must_be_small
"""


UNFIT: Final = {"collects what is returned"}
"""Lines that need more than they are given later, or that something else reads."""
GIVEN: Final = helper(later._graphbreak_value)
NOTES: Final = (
    *map(helper, (later._graphbreak_note, later._graphbreak_write)),
    later._NOTES,
    helper(later._graphbreak_flush),
)


def source_of(body: str, code: str = "") -> tuple[str, Frame]:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    marks = ("print(", "losses.", "warnings.", "if ", "one.log.")
    found = (one.strip() for one in body.splitlines() if one.strip().startswith(marks))
    line = code or next(found)
    return f"{HEAD}def f(x):\n{lines}{OTHER}", Frame("a.py", "f", 0, line)


def outcome(space: dict[str, Any], function: Any, x: torch.Tensor) -> dict[str, Any]:
    """Return everything that a caller sees of a call and a second one after it."""
    space["meter"].__init__()
    for name, value in (("losses", []), ("seen", []), ("steps", 0), ("scale", torch.ones(2))):
        if isinstance(value, list):
            space[name].clear()
        else:
            space[name] = value
    results, written = [], io.StringIO()
    inputs = [x.clone(), x.clone() + 1]
    with contextlib.redirect_stdout(written), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for one in inputs:
            found = function(one)
            results.append(bits(found))
            found.add_(1)  # what a caller does with it afterwards
    return {
        "results": results,
        "inputs": [bits(one) for one in inputs],
        "scale": bits(space["scale"]),
        "steps": space["steps"],
        "written": written.getvalue(),
        "warned": [str(one.message) for one in caught if "torch" not in str(one.filename)],
        "lists": [repr(space["losses"]), repr(space["seen"])],
    }


CHANGES: Final = {"after": later.AFTER, "noted": later.NOTED}
KINDS: Final = ("prints", "prints in a loop", "changes a view", "warns", "counts", *UNFIT)
"""Lines to note: ``noted`` takes the same as ``after``."""


@pytest.mark.parametrize(
    ("name", "way"), [*((name, "after") for name in LATER), *((name, "noted") for name in KINDS)]
)
def test_what_is_written_later_says_what_it_would_have_said(name: str, way: str) -> None:
    change = CHANGES[way]
    source, where = source_of(LATER[name])
    found = later.writing_at(source, where)
    assert (found is None) == (name in UNFIT)
    if found is None:
        return
    line, changed = found.definition("_graphbreak_line_0"), change(source, where)
    assert changed is not None
    plain, patched = loaded(source), loaded(GIVEN, *NOTES, line, changed)
    reordered = torch._dynamo.config.reorderable_logging_functions
    reordered.add(patched["_graphbreak_line_0"])
    run = torch.compile(patched["f"], backend="eager")
    if way == "noted":
        run = patched["_graphbreak_flush"](patched["f"], run)

    @settings(examples(30), phases=(Phase.explicit, Phase.generate))
    @example([1.0, 2.0])
    @given(LISTS)
    def check(values: list[float]) -> None:
        # Not -0.0: a number that Dynamo makes a constant is guarded by ==, which 0.0 passes.
        x = torch.tensor(values) + 0.0
        wanted, seen = outcome(plain, plain["f"], x), outcome(patched, run, x)
        if seen != wanted:
            pytest.fail(f"\n{line}\n{changed}\n{seen}\nwithout it\n{wanted}", pytrace=False)

    check()


@pytest.mark.parametrize("draws", ["torch.rand(2)", "random.random()", "np.random.randint(3)"])
def test_a_line_that_draws_is_not_moved(draws: str) -> None:
    """Its numbers would be drawn after those of the graph."""
    assert later.writing_at(*source_of(f"print({draws}, x.sum())\nreturn x")) is None
