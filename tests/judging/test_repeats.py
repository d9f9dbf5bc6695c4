"""A loop that compiles at each step is reported as one thing."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pytest_graphbreak.judging.finding import NEW, Finding
from pytest_graphbreak.judging.folding import series_of
from pytest_graphbreak.model.items import Frame, Recompile

pytestmark = pytest.mark.pure

WHERE = Frame("a.py", "decode", 3, "def decode(x, n):")


def again(graph: str, reason: str, layer: str = "dynamo") -> Recompile:
    return Recompile(layer, graph, reason, WHERE)


def test_recompiles_of_one_guard_are_one_group_whatever_their_values() -> None:
    items = [again("0/1", "n == 3"), again("0/2", "n == 4"), again("0/3", "m == 4")]
    graphs = [[item.graph for item in group.items] for group in series_of(items)]
    assert graphs == [["0/1", "0/2"], ["0/3"]]


def test_other_places_are_groups_of_their_own() -> None:
    other = replace(again("1/1", "n == 3"), where=Frame("b.py", "g", 1, "g(x)"))
    assert len(series_of([again("0/1", "n == 3"), other])) == 2


@pytest.mark.parametrize(
    ("number", "words"),
    [(1, "0/1"), (2, "0/1, 0/2"), (3, "0/1 to 0/3")],
    ids=["one graph", "both graphs", "the first and the last"],
)
def test_graphs_are_named_in_a_row(number: int, words: str) -> None:
    items = tuple(again(f"0/{graph}", "n == 3") for graph in range(1, number + 1))
    assert Finding(NEW, "recompile", items=items).names_of_recompiled == words


def test_another_guard_of_a_callee_is_reported_by_itself() -> None:
    outer, inner = Frame("a.py", "outer", 1), Frame("a.py", "inner", 5)
    items = [
        Recompile("dynamo", "0/1", "n == 3", outer),
        Recompile("dynamo", "1/1", "m == 4", inner, (outer,)),
    ]
    assert [reported.items[0].graph for reported in series_of(items)] == ["0/1", "1/1"]
