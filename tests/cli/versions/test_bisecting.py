"""The search finds the first bad one, whatever is skipped."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from pytest_graphbreak.cli.elsewhere import ElsewhereError
from pytest_graphbreak.cli.versions.bisecting import BisectResult, ChangeDetector, search
from pytest_graphbreak.cli.versions.by_release import Releases
from pytest_graphbreak.cli.versions.environment import SuiteRun
from pytest_graphbreak.layers.children.runner import Runner
from pytest_graphbreak.model.record import Break, Eager, Frame, Graph, Record
from pytest_graphbreak.model.report import RunReport


class Counted(Releases):
    """Releases whose test makes so many graphs; -1 where it cannot be tried."""

    def __init__(self, graphs: Sequence[int]) -> None:
        self.graphs = graphs
        self.tried: list[str] = []
        versions = [Version(str(number)) for number in range(len(graphs))]
        super().__init__(cast("Runner", _Nowhere()), "torch", versions, "a.py::test_a", [])

    def measure(self, name: str) -> SuiteRun:
        self.tried.append(name)
        graphs = self.graphs[int(name)]
        if graphs < 0:
            return SuiteRun(why="it does not install")
        return SuiteRun(_report(graphs))


class _Nowhere:
    directory = Path("nowhere")


def _report(graphs: int) -> RunReport:
    record = Record(layers=("dynamo",), graphs={"dynamo": graphs})
    test = SimpleNamespace(record=record, outcome="passed", failed_by=None, verdict="ok")
    return cast("RunReport", SimpleNamespace(tests=[test]))


def found(graphs: Sequence[int]) -> tuple[BisectResult, Counted]:
    among = Counted(graphs)
    return search(among, lambda *_: None, lambda *_: None, lambda _: None), among


@given(st.data(), st.integers(2, 60))
def test_the_first_bad_one_is_among_the_answers(data: st.DataObject, count: int) -> None:
    first = data.draw(st.integers(1, count - 1))
    torn = data.draw(st.sets(st.integers(1, max(1, count - 2))))
    graphs = [2 if number >= first else 1 for number in range(count)]
    for number in torn - {0, count - 1}:
        graphs[number] = -1
    result, among = found(graphs)
    answers = [int(name) for name in result.answers]
    assert first in answers
    assert answers == sorted(answers)
    assert all(graphs[number] < 0 for number in answers[:-1])
    assert {int(name) for name in result.skipped} >= {*answers[:-1]}
    assert (result.before.record.graphs, result.after.record.graphs) == (
        {"dynamo": 1},
        {"dynamo": 2},
    )
    assert len(among.tried) == len({*among.tried})
    if not torn - {0, count - 1}:
        assert answers == [first]
        assert len(among.tried) - 2 <= (count - 2).bit_length()


def test_where_neighbours_fail_together_the_next_is_further_away() -> None:
    graphs = [1] * 400 + [-1] * 200 + [1] * 300 + [2] * 100
    result, among = found(graphs)
    assert result.answers == ["900"]
    assert len(among.tried) < 40


def test_neighbours_need_no_step() -> None:
    result, among = found([1, 2])
    assert (result.answers, among.tried) == (["1"], ["0", "1"])


def test_nothing_is_found_where_nothing_moved() -> None:
    with pytest.raises(ElsewhereError, match="there is nothing to find"):
        found([1, 2, 1])


# what moved


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
    moved = ChangeDetector(good, bad)
    assert moved.what == what
    assert not moved(good)
    assert moved(bad) == bool(what)


def test_what_is_not_looked_for_does_not_count() -> None:
    moved = ChangeDetector(record(1), record(2))
    assert not moved(record(1, layers=("dynamo", "xla")))
    assert moved(Record(("dynamo",), {"dynamo": 1}, eager=(Eager("dynamo", "r"),)))
    assert not ChangeDetector(ops(9), record(2))(ops(3))
