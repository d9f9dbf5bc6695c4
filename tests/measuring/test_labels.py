"""What is compiled is named by what the program said that it was doing: in records, in texts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_graphbreak import during
from pytest_graphbreak.measuring.labels import Labels
from pytest_graphbreak.model.items import Break, Frame, Graph, Recompile
from pytest_graphbreak.model.record import Record


class Program:
    """A record that grows, and is looked at."""

    def __init__(self) -> None:
        self.labels = Labels(lambda: self.record)
        self.record = Record()

    def compile(self, layer: str = "dynamo", broke: str = "") -> None:
        was = self.record
        number = sum(graph.layer == layer for graph in was.graph_list)
        graphs = [*was.graph_list, Graph(layer, f"{number}/0", "entry")]
        breaks = {item.where.code: item.count for item in was.breaks}
        if broke:
            breaks[broke] = breaks.get(broke, 0) + 1
        self.record = Record(
            layers=("dynamo", "xla"),
            # As in a real one: the graphs of one layer after those of the other.
            graph_list=tuple(sorted(graphs, key=lambda graph: graph.layer)),
            recompile_list=(*was.recompile_list, Recompile(layer)),
            breaks=tuple(
                Break("dynamo", where=Frame("a.py", "f", 1, code), count=count)
                for code, count in breaks.items()
            ),
        )

    def said(self) -> dict[str, str | None]:
        named = self.labels.put_on(self.record)
        assert [item.during for item in named.recompile_list if item.layer == "dynamo"] == [
            item.during for item in named.graph_list if item.layer == "dynamo"
        ]
        return {f"{graph.layer} {graph.name}": graph.during for graph in named.graph_list}


@pytest.fixture
def program() -> Iterator[Program]:
    program = Program()
    program.labels.attach()
    yield program
    program.labels.detach()


def test_each_graph_has_the_stretch_it_was_made_in(program: Program) -> None:
    program.compile()
    with during("warm-up"):
        program.compile("xla")
        program.compile()
        with during("bucket 16"):
            program.compile("xla")
        program.compile()
    program.compile()
    assert program.said() == {
        "dynamo 0/0": None,
        "dynamo 1/0": "warm-up",
        "dynamo 2/0": "warm-up",
        "dynamo 3/0": None,
        "xla 0/0": "warm-up",
        "xla 1/0": "warm-up, bucket 16",
    }


def test_a_stretch_that_has_not_ended_is_reported(program: Program) -> None:
    with during("request 1"):
        program.compile()
        assert program.said() == {"dynamo 0/0": "request 1"}


def test_a_place_has_the_stretch_in_which_it_came_up(program: Program) -> None:
    program.compile(broke="one")
    with during("request 1"):
        program.compile(broke="two")
    with during("request 2"):
        program.compile(broke="two")
    assert [item.during for item in program.labels.put_on(program.record).breaks] == [
        None,
        "request 1",
    ]


def test_a_view_that_comes_later_is_in_the_stretch(program: Program) -> None:
    program.compile()
    with during("request 1"):
        later = Program()
        later.record = program.record
        later.labels.attach()
        later.compile()
        later.labels.detach()
    assert later.said() == {"dynamo 0/0": None, "dynamo 1/0": "request 1"}


def test_a_stretch_ends_with_an_exception(program: Program) -> None:
    with pytest.raises(KeyError), during("request 1"):
        raise KeyError
    program.compile()
    assert program.said() == {"dynamo 0/0": None}


def test_a_long_label_is_cut(program: Program) -> None:
    with during("x" * 1000):
        program.compile()
    assert program.said() == {"dynamo 0/0": "x" * 200}
