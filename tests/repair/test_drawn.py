"""Random numbers of NumPy and of Python, as calls that a graph makes where the program did."""

from __future__ import annotations

import ast

import pytest

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.rewrite import apply
from pytest_graphbreak.repair.rewrite.drawn import together
from pytest_graphbreak.repair.rewrite.line import shown

HEAD = """\
import random

import numpy as np
from numpy import random as npr

rng, dice = np.random.default_rng(0), 6
own = np.random.RandomState(1)
python = random.Random(2)


"""


def rewritten(line: str, head: str = HEAD, given: str = "x, p=0.5") -> str:
    """Return what becomes of a line of a function, or an empty text if it stays."""
    source = f"{head}def f({given}):\n    {line}\n    return x\n"
    changed = apply(source, "drawn", Frame("a.py", "f", 0, line))
    if changed is None:
        return ""
    ast.parse(changed)
    return shown(source, changed, line)


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("x = x + np.random.normal(0, 0.1)", 'x = x + {}(float, "np.random.normal", 0, 0.1)'),
        ("i = npr.randint(0, high=len(x))", 'i = {}(int, "npr.randint", 0, high=len(x))'),
        ("x = x * own.rand()  # noise", 'x = x * {}(float, "own.rand")  # noise'),
        ("x = x * python.gauss(0, 1)", 'x = x * {}(float, "python.gauss", 0, 1)'),
        ("x = x * random.random()", 'x = x * {}(float, "random.random")'),
        ("i = random.randint(1, p or 2)", 'i = {}(int, "random.randrange", 1, (p or 2) + 1)'),
        ("i = random.randrange(6)", 'i = {}(int, "random.randrange", 6)'),
        ("x = random.betavariate(1, 2) * x", 'x = {}(float, "random.betavariate", 1, 2) * x'),
        (
            "if p > np.random.rand(): x = -x",
            'if p > torch.tensor({}(float, "np.random.rand"), dtype=torch.float64): x = -x',
        ),
        (
            "x = -x if npr.randint(2) == 0 else x",
            'x = -x if torch.tensor({}(int, "npr.randint", 2), dtype=torch.int64) == 0 else x',
        ),
    ],
)
def test_one_number_is_drawn_by_a_call_of_the_file(line: str, becomes: str) -> None:
    assert rewritten(line) == becomes.replace("{}", "_graphbreak_drawn")


@pytest.mark.parametrize(
    "line",
    [
        "x = np.random.rand(3)",
        "x = np.random.normal(0, 1, 3)",
        "x = np.random.normal(size=3)",
        "x = np.random.randint(*x)",
        "x = np.random.permutation(3)",
        "x = random.choice([1, 2])",
        "x = random.randint(a=1, b=2)",
        "x = random.randrange(0, 9, 3)",
        "x = torch.rand(())",
        "x = self.rng.normal()",
        "x = f().normal()",
    ],
)
def test_arrays_and_others_stay(line: str) -> None:
    assert rewritten(line) == ""


def test_a_name_that_a_function_sets_is_not_the_one_of_the_file() -> None:
    line = "x = own.rand() * x"
    assert rewritten(line)
    assert rewritten(line, given="x, own") == ""
    assert rewritten(line, head=f"{HEAD}def g():\n    own = None\n\n\n") == ""


def test_what_dynamo_draws_before_the_graph_is_changed_together_with_others() -> None:
    """The order of the numbers would be another one."""
    before = f"{HEAD}class A:\n    def g(self):\n        return random.uniform(0, 1)\n\n\n"
    source = f"{before}def f(x):\n    return x + LINE\n"
    own = source.replace("LINE", "random.random()")
    assert together(own, "f") == ["f", "A.g"]
    assert together(own, "A.g") == ["A.g"]
    assert together(source.replace("LINE", "np.random.rand()"), "f") == ["f"]


def test_all_numbers_of_a_function_are_drawn_so() -> None:
    source = (
        f"{HEAD}def f(x):\n    a = np.random.rand()\n    b = own.rand()\n    return a * b * x\n"
    )
    changed = apply(source, "drawn", Frame("a.py", "f", 0, "a = np.random.rand()"))
    assert changed is not None
    assert changed.count("_graphbreak_drawn(float, ") == 2
