"""What a function visibly does, read from its source."""

from __future__ import annotations

import textwrap

import pytest

from pytest_graphbreak.repair import pure

HEAD = """
import math, random, time
import numpy as np
import torch.nn.functional as F
from os import path as where

LIMIT = 3
SEEN = []
"""


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("return F.relu(x) * math.sqrt(float(np.float32(2))) + y", True),
        ("z = [x, y]\nreturn max(len(z), 1) * x", True),
        ("seed = x + 1\nreturn seed", True),
        ("return x * LIMIT", False),
        ("SEEN.append(x)\nreturn x", False),
        ("global LIMIT\nLIMIT = 4\nreturn x", False),
        ("return x * random.random()", False),
        ("return x * np.random.rand()", False),
        ("return x * time.time()", False),
        ("return x if where.exists('a') else y", False),
        ("x.add_(1)\nreturn x", False),
        ("x += 1\nreturn x", False),
        ("x[0] = 1\nreturn x", False),
        ("x.seen = 1\nreturn x", False),
        ("print(x)\nreturn x", False),
        ("import math\nreturn x", False),
        ("with torch.no_grad():\n    return x", False),
    ],
)
def test_only_what_computes_from_its_arguments_is_pure(body: str, wanted: bool) -> None:
    source = f"{HEAD}\ndef f(x, y):\n{textwrap.indent(body, '    ')}\n"
    function = pure.find(source, "f")
    assert function is not None
    assert pure.is_pure(function, pure.imports(source)) is wanted


def test_a_method_reads_what_its_object_holds() -> None:
    source = "class C:\n    def f(self, x):\n        return x * self.k\n"
    function = pure.find(source, "C.f")
    assert function is not None
    assert pure.parameters(function) == ["self", "x"]
    assert not pure.is_pure(function, {})


def test_a_function_is_found_by_its_qualified_name() -> None:
    source = "if True:\n    def f():\n        def g(a): pass\ndef g(b): pass\n"
    inner, outer = pure.find(source, "f.<locals>.g"), pure.find(source, "g")
    assert inner is not None
    assert outer is not None
    assert (pure.parameters(inner), pure.parameters(outer)) == (["a"], ["b"])
    assert pure.find(source, "h") is None
    assert pure.find("class C:\n    pass\n", "C") is None


def test_imports_are_known_by_the_names_they_bind() -> None:
    found = pure.imports(f"{HEAD}import scipy.special\nfrom . import mine\n")
    assert found == {
        "math": "math",
        "random": "random",
        "time": "time",
        "np": "numpy",
        "F": "torch.nn.functional",
        "where": "os.path",
        "scipy": "scipy",
    }
