"""What the lines of an edit say of compiled code that became less."""

from __future__ import annotations

import pytest

from pytest_graphbreak.judging.edited import EditedLine, is_inside, moved_out
from pytest_graphbreak.model.record import Frame

COMPILED = ("net.py::Net.forward", "net.py::scale")


def line(sign: str, function: str, code: str, number: int = 1) -> EditedLine:
    return EditedLine(Frame("net.py", function, number, code), sign == "+")


@pytest.mark.parametrize(
    ("edited", "found"),
    [
        # A call, a method, an operator, and one of several.
        ([("-", "Net.forward", "x = torch.sigmoid(x)"), ("+", "run", "x = torch.sigmoid(x)")], 2),
        ([("-", "Net.forward", "return x.argmax(-1)"), ("+", "run", "y = x.argmax(-1)")], 2),
        ([("-", "Net.forward", "return x + y"), ("+", "run", "x = x + net(x)")], 2),
        (
            [
                ("-", "Net.forward", "x = F.relu(F.relu(x))"),
                ("+", "Net.forward", "x = F.relu(x)"),
                ("+", "run", "x = F.relu(net(x))"),
            ],
            3,
        ),
        # Into another function that is compiled, deleted, written anew, or of Python.
        ([("-", "Net.forward", "x = torch.sin(x)"), ("+", "scale", "x = torch.sin(x)")], None),
        ([("-", "Net.forward", "x = torch.sin(x)")], None),
        ([("+", "run", "x = torch.sin(x)")], None),
        ([("-", "Net.forward", "x = list(x)"), ("+", "run", "x = list(x)")], None),
        # What was called outside already, and what only its line changed.
        (
            [
                ("-", "Net.forward", "x = torch.sin(x)"),
                ("-", "run", "x = torch.sin(x)"),
                ("+", "run", "x = torch.sin(2)"),
            ],
            None,
        ),
        (
            [
                ("-", "Net.forward", "return torch.sin(x)"),
                ("+", "Net.forward", "return torch.sin(y)"),
                ("+", "run", "y = torch.sin(x)"),
            ],
            None,
        ),
        ([], None),
    ],
)
def test_moved(edited: list[tuple[str, str, str]], found: int | None) -> None:
    lines = [line(*one, number) for number, one in enumerate(edited, 1)]
    place = moved_out(lines, COMPILED, COMPILED)
    assert (place and place.line) == found


def test_a_function_that_is_compiled_no_more_or_only_now() -> None:
    edited = [line("-", "scale", "x = x.exp()"), line("+", "scale", "x = x.exp() + 1", 2)]
    assert moved_out(edited, COMPILED, COMPILED[:1]) == edited[1].where
    assert moved_out(edited, COMPILED[:1], COMPILED) is None


@pytest.mark.parametrize(
    ("edited", "inside"),
    [
        ([("-", "Net.__init__", "range(3)"), ("+", "Net.__init__", "range(2)")], True),
        ([("-", "Net.forward", "x = x.relu()"), ("+", "Net.forward", "")], True),
        ([("-", "Net.__init__", "range(3)"), ("+", "run", "range(2)")], False),
        ([("-", "Other.__init__", "range(3)")], False),
        ([("+", "Net.__init__", "self.part.compile()")], False),
        ([("-", "scale", "@torch.compiler.disable")], False),
        ([("+", "<module>", ""), ("-", "scale", "x")], True),
        # A number of layers, in a call and in a class of options; another number is none.
        ([("-", "run", "A(num_layers=2, b=1)"), ("+", "run", "A(num_layers=1, b=1)")], True),
        ([("-", "<module>", "depth: int = 4"), ("+", "<module>", "depth: int = 2")], True),
        ([("-", "run", "steps = 4"), ("+", "run", "steps = 2")], False),
        ([("-", "run", "A(num_layers=2, b=x)"), ("+", "run", "A(num_layers=1, b=y)")], False),
        ([("+", "run", "A(num_layers=1)")], False),
        ([], False),
    ],
)
def test_inside_of_compiled_code(edited: list[tuple[str, str, str]], inside: bool) -> None:
    assert is_inside([line(*one) for one in edited], COMPILED, COMPILED) is inside
