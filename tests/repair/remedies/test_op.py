"""A function that is one node of the graph gives what it gave, or raises."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.remedies import op
from pytest_graphbreak.repair.rewrite.tree import parse
from tests.examples import examples
from tests.repair.remedies.sound import TENSORS, Function, Pair, loaded

pytestmark = pytest.mark.once

CHANGES: dict[str, Function] = {
    "nothing": lambda x: x * 2,
    "fills": lambda x: x.fill_(3.0) * 2,
    "a sign": lambda x: x.neg_() * 2,
    "nan to num": lambda x: x.nan_to_num_() * 2,
    "an alias": lambda x: x,
    "another shape": lambda x: x.sum(),
    "another dtype": lambda x: x.to(torch.float16),
}
BODY = """\
def f(x, y):
    return torch.stack([g(x).sum().double(), x.sum().double()])
"""


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_a_function_that_is_one_node(name: str) -> None:
    """What changes its argument cannot be a node: the change would be lost."""
    made = loaded(*op._HELPERS)["_graphbreak_op"](CHANGES[name])
    pair = Pair(BODY, BODY, g=CHANGES[name])
    patched = torch.compile(loaded(BODY, g=made)["f"], backend="eager", fullgraph=True)
    pair._run = patched

    @examples(30)
    @given(TENSORS)
    def check(x: torch.Tensor) -> None:
        torch._dynamo.reset()
        pair.check(x, x)

    check()


@pytest.mark.parametrize(
    ("body", "certain"),
    [
        ("seed = hashlib.md5(b'a').digest()[0]\n    return x * seed", False),
        ("return torch.sin(x).clamp(min=0)", True),
        ("self.n = 3\n    return x", False),
        ("return x * scale", False),
        ("return x * torch.rand(2)", False),
        ("print(x)\n    return x", False),
        ("y = x + 1\n    y += 1\n    return y", False),
    ],
)
def test_whether_a_function_only_computes(body: str, certain: bool) -> None:
    tree = parse(f"import hashlib\nimport torch\nscale = 2\n\n\ndef f(x):\n    {body}\n")
    ((_, function),) = tree.functions
    assert op._only_computes(function, tree) is certain


def test_the_functions_of_other_modules_that_a_line_calls() -> None:
    source = (
        "import zlib\nimport numpy as np\nfrom math import sqrt\n\n\n"
        "def f(x):\n    return np.spacing(x) * zlib.crc32(b'a') + sqrt(2) + x.sum() + len(x)\n"
    )
    line = source.splitlines()[-1].strip()
    found = op._functions(source, Frame("a.py", "f", 7, line))
    assert sorted(found) == ["math.sqrt", "numpy.spacing", "zlib.crc32"]


def test_a_method_keeps_its_decorators() -> None:
    source = "class A:\n    @property\n    @other\n    def f(self):\n        return 1\n"
    wanted = source.replace("    @other\n", "    @torch._dynamo.nonstrict_trace\n    @other\n")
    assert op.nonstrict(source, Frame("a.py", "A.f", 0, "")) == wanted
