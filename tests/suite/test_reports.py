"""What pytest shows of our failures, whole where there is no terminal."""

from __future__ import annotations

import io
import json

import pytest

from pytest_graphbreak.suite.reports import FailureText
from pytest_graphbreak.text.output import BLANK, TextLine, pack, plain_text, unpack

pytestmark = pytest.mark.pure

LINES = [
    TextLine("4 dynamo graphs, the block allows 0 (+4)", "headline", head="graph budget: "),
    BLANK,
    TextLine(
        "Unsupported Tensor.item() call with capture_scalar_outputs=False", "new", 2, "+ GB0124 "
    ),
    TextLine("keep it a tensor", "advice", 6, "fix: "),
    TextLine("", "command", 2, "explain  ", "graphbreak explain GB0124"),
]


class Writer:
    """pytest's terminal writer, as far as it is asked."""

    def __init__(self) -> None:
        self._file = io.StringIO()
        self.marked: list[tuple[str, str]] = []

    def write(self, text: str, **markup: bool) -> None:
        self._file.write(text)
        self.marked += [(name, text) for name in markup]

    def line(self, text: str = "") -> None:
        self._file.write(f"{text}\n")

    @property
    def text(self) -> str:
        return self._file.getvalue()


def test_a_failure_keeps_its_kinds_on_the_way_to_another_process() -> None:
    there = unpack(json.loads(json.dumps(pack(LINES))))
    assert there == LINES
    writer = Writer()
    FailureText(there, ("test_a.py", 3, "test_it")).toterminal(writer)
    assert writer.text == plain_text(LINES) + "\n"
    assert ("bold", plain_text(LINES[:1])) in writer.marked
