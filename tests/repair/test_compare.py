"""What two runs gave, leaf by leaf."""

from __future__ import annotations

import pytest

from pytest_graphbreak.repair.compare import difference
from pytest_graphbreak.repair.printed import Lines

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (["a", "b 1.0001"], ["b 1.0002", "a"], None),  # in any order, numbers as close as values
        (["a"], [], "lines: it no longer prints 'a'"),
        (["a 1"], ["a 2"], "lines: it prints 'a 2' where the original prints 'a 1'"),
    ],
)
def test_what_a_call_prints(before: list[str], after: list[str], words: str | None) -> None:
    flat = [[("lines", Lines(lines))] for lines in (before, after)]
    assert difference(*flat) == words
