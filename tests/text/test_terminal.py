"""Lines on a terminal, coloured unless NO_COLOR says otherwise."""

from __future__ import annotations

import io

import pytest

from pytest_graphbreak.text.output import Kind, TextLine
from pytest_graphbreak.text.terminal import has_colour, paint, rows_of, spans
from pytest_graphbreak.text.wrapping import wrap_line
from tests.text.tools import Terminal

pytestmark = pytest.mark.pure


def test_colours_are_those_of_a_terminal_and_of_the_environment() -> None:
    assert has_colour(Terminal(), {"TERM": "xterm"})
    assert not has_colour(Terminal(), {"TERM": "dumb"})
    assert not has_colour(io.StringIO(), {})
    assert not has_colour(Terminal(), {"NO_COLOR": "1", "FORCE_COLOR": "1"})
    assert has_colour(io.StringIO(), {"FORCE_COLOR": "1"})
    assert not has_colour(io.StringIO(), {"FORCE_COLOR": "0"})


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        ("headline", [("+ over = 3", ("red", "bold"))]),
        ("new", [("+ ", ("red", "bold")), ("over = 3", ("bold",))]),
        ("advice", [("+ ", ("green", "bold")), ("over = 3", ("green",))]),
        ("text", [("+ over = 3", ())]),
    ],
)
def test_the_kind_of_a_line_decides_on_its_colours(
    kind: Kind, shown: list[tuple[str, tuple[str, ...]]]
) -> None:
    (row,) = wrap_line(TextLine("over = 3", kind, head="+ "), 80)
    assert list(spans(row, kind)) == shown


def test_a_file_gets_the_line_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    line = TextLine("print after the call" * 9, "advice", 6, "fix: ")
    assert list(rows_of(line, io.StringIO())) == [str(line)]
    assert paint("over", ("red", "bold")) == "\x1b[31;1mover\x1b[0m"


def test_what_is_printed_is_harmless() -> None:
    line = TextLine("::error::a\x1b[2J", head="##[")
    assert list(rows_of(line, io.StringIO())) == [r"\x23#[\x3a:error::a\x1b[2J"]
