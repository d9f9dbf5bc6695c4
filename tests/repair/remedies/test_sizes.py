"""Sizes that vary: the calls of torch.compile, and lines that mark sizes."""

from __future__ import annotations

import pytest

from pytest_graphbreak.model.record import Record
from pytest_graphbreak.repair.patch import COMPILES
from pytest_graphbreak.repair.remedies import sizes
from pytest_graphbreak.repair.trial import Trial

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("f = torch.compile(f)", "f = torch.compile(f, dynamic=True)"),
        ("f = torch.compile(f, dynamic=False)", "f = torch.compile(f, dynamic=True)"),
        (
            '@torch.compile(backend="eager")\ndef f(x): return x',
            '@torch.compile(backend="eager", dynamic=True)\ndef f(x): return x',
        ),
    ],
)
def test_the_calls_of_a_program_are_dynamic(line: str, wanted: str) -> None:
    head = "import torch\n\n\n"
    assert sizes.as_dynamic(f"{head}{line}  # here\n", COMPILES) == f"{head}{wanted}  # here\n"


@pytest.mark.parametrize("line", ["re.compile('a')", "model.compile()", "x = 3"])
def test_other_calls_stay(line: str) -> None:
    assert sizes.as_dynamic(f"import re\n{line}\n", COMPILES) is None


HEAD = "import torch\n\n\n@torch.compile\ndef f(x, batch): return x\n\n\nfor x, y in data:\n"


@pytest.mark.parametrize(
    ("argument", "dims", "call", "marked"),
    [
        ("x", [0], "f(x, y)", "x, 0"),
        ("batch['ids']", [0, 1], "print(f(x, batch=y))", "y['ids'], [0, 1]"),
        ("x", [0], "f(x + 1, y)", None),
        ("rest[0]", [0], "f(x, y)", None),
    ],
)
def test_a_size_is_marked_by_one_line(
    argument: str, dims: list[int], call: str, marked: str | None
) -> None:
    varies = [{"name": "f", "parameters": ["x", "batch"], "dims": {argument: dims}}]
    patches = list(sizes.recompiles(Trial(Record(), varies=varies)))
    before = f"{HEAD}    {call}\n"
    texts = [patch.change(before, COMPILES) for patch in patches[1:]]
    line = f"    torch._dynamo.mark_dynamic({marked})\n"
    wanted = [f"{HEAD}{line}    {call}\n"] if marked else [None] if argument == "x" else []
    assert texts == wanted
