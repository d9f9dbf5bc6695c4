"""What moved between two records, and what is still like the first."""

from __future__ import annotations

import pytest

from pytest_graphbreak.cli.versions.moved import Likeness
from pytest_graphbreak.model.record import Break, Eager, Frame, Graph, Record


def a_break(file: str = "a.py", code: str = "print(x)") -> Break:
    return Break("dynamo", "reason", Frame(file, "f", 3, code))


def record(graphs: int = 1, *breaks: Break, layers: tuple[str, ...] = ("dynamo",)) -> Record:
    return Record(layers, {"dynamo": graphs}, breaks=breaks)


def ops(count: int) -> Record:
    graph = Graph("dynamo", "0/0", "entry", ops=count)
    return Record(("dynamo",), {"dynamo": 1}, graph_list=(graph,))


@pytest.mark.parametrize(
    ("good", "bad", "what"),
    [
        (record(1), record(2), "counts"),
        (record(2, a_break()), record(2, a_break(), a_break(code="y")), "counts"),
        (record(2, a_break()), record(2, a_break(code="y")), "places"),
        (record(2, a_break()), record(2, a_break("renamed.py")), ""),
        (ops(9), ops(3), "captured operations"),
        (record(1), record(1), ""),
    ],
)
def test_the_first_that_differs_is_looked_for(good: Record, bad: Record, what: str) -> None:
    moved = Likeness(good, bad)
    assert moved.what == what
    assert not moved(good)
    assert moved(bad) == bool(what)


def test_what_is_not_looked_for_does_not_count() -> None:
    moved = Likeness(record(1), record(2))
    assert not moved(record(1, layers=("dynamo", "xla")))
    assert moved(Record(("dynamo",), {"dynamo": 1}, eager=(Eager("dynamo", "r"),)))
    assert not Likeness(ops(9), record(2))(ops(3))
