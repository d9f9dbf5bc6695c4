"""What pytest shows of our failures: broken at the width of the terminal, and whole elsewhere."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_graphbreak.report.failure import BlockText, FailureText
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

    def __init__(self, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self._file = io.StringIO()
        monkeypatch.setattr(self._file, "isatty", lambda: bool(width), raising=False)
        monkeypatch.setenv("COLUMNS", str(width or 80))
        self.marked: list[tuple[str, str]] = []

    def write(self, text: str, **markup: bool) -> None:
        self._file.write(text)
        self.marked += [(name, text) for name in markup]

    def line(self, text: str = "") -> None:
        self._file.write(f"{text}\n")

    @property
    def text(self) -> str:
        return self._file.getvalue()


def test_a_failure_keeps_its_kinds_on_the_way_to_another_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = unpack(json.loads(json.dumps(pack(LINES))))
    assert there == LINES
    writer = Writer(0, monkeypatch)
    FailureText(there, ("test_a.py", 3, "test_it")).toterminal(writer)
    assert writer.text == plain_text(LINES) + "\n"
    assert ("bold", plain_text(LINES[:1])) in writer.marked


def test_by_the_line_pytest_says_all(monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer(60, monkeypatch)
    shown = FailureText(LINES, ("test_a.py", 3, "test_it"), line=True)
    shown.toterminal(writer)
    assert writer.text == ""
    assert str(shown.reprcrash) == f"test_a.py:4: {plain_text(LINES[:1])}"


@contextmanager
def a_traceback(lines: list[str]) -> Iterator[Any]:
    """What pytest makes of an exception, and shows line by line."""
    entry = SimpleNamespace(lines=lines)
    shown = SimpleNamespace(reprtraceback=SimpleNamespace(reprentries=[entry]))
    shown.toterminal = lambda writer: [writer.line(line) for line in entry.lines]
    yield shown
    assert entry.lines is lines


@pytest.mark.parametrize("width", [0, 60])
def test_only_our_lines_of_a_traceback_are_broken(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *more = plain_text(LINES).split("\n")
    own = [">       with graph_budget(max_graphs=0) as seen, torch.no_grad(), a_long_name():"]
    ours = [f"E       pytest_graphbreak.BudgetExceeded: {first}"]
    ours += [f"E       {line}".rstrip() for line in more]
    writer = Writer(width, monkeypatch)
    with a_traceback([*own, *ours, "E   a note"]) as shown:
        BlockText(shown, LINES)(writer)
    found = writer.text.splitlines()
    assert [found[0], found[-1]] == [*own, "E   a note"]
    assert " ".join(found).split() if width else found == [*own, *ours, "E   a note"]
    assert all(line.startswith("E") for line in found[1:])
    assert not width or all(len(line) <= width for line in found[1:])
    assert (len(found) > len(ours) + 2) == bool(width)
