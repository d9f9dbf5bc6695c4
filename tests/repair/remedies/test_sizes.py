"""Sizes that vary: the calls of torch.compile, and what a call that marks them gives and leaves."""

from __future__ import annotations

import pytest

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.remedies import sizes

pytestmark = pytest.mark.once

HERE = Frame("a.py", "<module>", 0, "")


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
    assert sizes.as_dynamic(f"{head}{line}  # here\n", HERE) == f"{head}{wanted}  # here\n"


@pytest.mark.parametrize("line", ["re.compile('a')", "model.compile()", "x = 3"])
def test_other_calls_stay(line: str) -> None:
    assert sizes.as_dynamic(f"import re\n{line}\n", HERE) is None
