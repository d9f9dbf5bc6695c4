"""What a test was judged by, as the report tells it."""

from __future__ import annotations

import pytest

from pytest_graphbreak.baseline import Expected
from pytest_graphbreak.model.budget import Cap, Values
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.report import Budget
from pytest_graphbreak.report.judgement import baseline_of, budget_for

pytestmark = pytest.mark.pure


def expected(**graphs: int) -> Expected:
    own = frozenset(graphs)
    return Expected(
        Values(graphs=graphs), profile="cpu", versions={"torch": "2.9"}, recorded=True, own=own
    )


def test_the_smaller_one_holds_on_each_layer() -> None:
    record = Record(layers=("dynamo", "xla"))
    cap = Cap(layers={"dynamo": 2, "xla": 9})
    assert budget_for(record, expected(dynamo=3, xla=4), cap) == Budget({"dynamo": 2, "xla": 4})
    assert budget_for(record, None, cap) == Budget({"dynamo": 2, "xla": 9})


def test_a_layer_that_was_not_there_is_not_in_it() -> None:
    record = Record(layers=("dynamo",))
    assert budget_for(record, None, Cap(layers={"tt": 1})) == Budget()


def test_without_baseline_and_marker_there_is_none() -> None:
    assert budget_for(Record(layers=("dynamo",)), None, None) is None
    assert baseline_of(None) is None
