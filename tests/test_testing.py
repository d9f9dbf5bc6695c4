"""What others test with: a small suite is run under the gate, and its records are given back."""

from __future__ import annotations

import pytest

from pytest_graphbreak.testing import GatedSuite
from tests.conftest import BROKEN

pytest_plugins = ["pytest_graphbreak.testing"]


@pytest.mark.once
def test_a_suite_is_run_and_its_records_are_given_back(gated_suite: GatedSuite) -> None:
    pytest.importorskip("torch")
    gated_suite.write(BROKEN)
    (gated_suite.path / "baselines").mkdir()
    outcome = gated_suite.run("--graph-budget")
    outcome.pytest.assert_outcomes(failed=1)
    record = outcome.records["test_it.py::test_model"]
    assert record.graphs == {"dynamo": 2}
    (broke,) = record.breaks
    assert broke.where.code == 'print("hello")'
    assert outcome.tests["test_it.py::test_model"].verdict == "new"


def test_a_run_without_a_report_is_an_error(gated_suite: GatedSuite) -> None:
    gated_suite.write("def test_model(): pass")
    with pytest.raises(LookupError, match="pytest ended with 4 and wrote no report"):
        gated_suite.run("--no-such-option")
