"""The rules of docs/explanation/counting.md, "Verdicts": the counts of each edit, and its verdict.

``tests/processes/test_edits.py`` makes the same edits by real runs.
"""

from __future__ import annotations

import pytest

from pytest_graphbreak.baseline.model import Entry
from pytest_graphbreak.baseline.rules import expectation
from pytest_graphbreak.judging.measured import values
from pytest_graphbreak.judging.verdict import judge
from pytest_graphbreak.model.items import Break, Frame, Graph, LineRuns
from pytest_graphbreak.model.record import Record
from tests.tables import EDITS, Counts, Edit

pytestmark = pytest.mark.pure

HERE = Frame("test_it.py", "Net.forward", 9, "print(x)")


def record(counts: Counts, code: str = "print(x)") -> Record:
    """A record with these counts: each graph runs equally often."""
    causes = ["recompile"] * counts.recompiles
    causes = ["entry", *["break"] * (counts.graphs - 1 - counts.recompiles), *causes]
    where = Frame("test_it.py", counts.entry, 3, "def forward(self, x):")
    graphs = [
        Graph("dynamo", f"{number}/0", cause, counts.ops if cause != "break" else 0, where=where)
        for number, cause in enumerate(causes[: counts.graphs])
    ]
    runs = LineRuns("dynamo", "call", "", counts.executions, HERE)
    return Record(
        layers=("dynamo",),
        graphs={"dynamo": counts.graphs},
        recompiles={"dynamo": counts.recompiles},
        breaks=(Break("dynamo", "print", Frame("a.py", "f", 9, code)),) * counts.breaks,
        graph_list=tuple(graphs),
        executions={"dynamo": counts.executions},
        execution_list=(runs,) if counts.executions else (),
    )


@pytest.mark.parametrize("edit", EDITS, ids=[edit.words for edit in EDITS])
def test_the_verdict_follows_from_the_counts(edit: Edit) -> None:
    baseline = values(record(edit.before))
    expected = expectation(Entry("a.py", "test", None, "cpu", {"torch": "2.9"}, baseline), "cpu")
    now = record(edit.after, "print(y)" if edit.elsewhere else "print(x)")
    assert judge(now, expected, versions={"torch": "2.9.1"}).name == edit.verdict


def test_there_are_twenty_edits_with_each_verdict_of_a_baseline() -> None:
    assert len(EDITS) == 20
    assert {edit.verdict for edit in EDITS} == {"ok", "over", "lost", "improved", "changed"}
