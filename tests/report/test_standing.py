"""Which counts moved: by what somebody limits, and the same wherever it is reported."""

from __future__ import annotations

import json

import pytest

from pytest_graphbreak.model.report import RunEnvironment, RunReport
from pytest_graphbreak.report import html, markdown
from pytest_graphbreak.report.checkout import CheckoutSources
from pytest_graphbreak.report.root_causes import by_nodeid, root_causes
from pytest_graphbreak.report.runs import runs_of
from pytest_graphbreak.report.standing import growth, row
from tests.reports import Data, a_graph, as_tests, over

pytestmark = pytest.mark.pure


def by_marker(nodeid: str, limit: int = 1) -> Data:
    """A test on torch_xla with one break: two graphs of Dynamo for one, and nobody limits xla."""
    test = over(nodeid, limit, 2, baseline=None, cap={"layers": {"dynamo": limit}})
    test["layers"] = ["dynamo", "xla"]
    test["graphs"]["xla"] = 3
    test["graph_list"] += [a_graph(str(number), "fx", "xla") for number in range(3)]
    return test


def test_a_layer_that_nobody_limits_does_not_grow() -> None:
    tests = as_tests(by_marker("t.py::a"), by_marker("t.py::b"))
    assert [growth(test) for test in tests] == [1, 1]
    (cause,) = root_causes(by_nodeid(tests)).findings
    assert cause.growth == 2
    assert row(tests[0]) == "t.py::a   dynamo 1 -> 2, 1 graph break"


def test_the_comment_and_the_page_count_it_as_the_terminal_does() -> None:
    tests = as_tests(by_marker("t.py::a"))
    found = runs_of([RunReport(RunEnvironment("xla-cpu"), tuple(tests), name="g.json")])
    assert "| **dynamo 1 → 2 (+1)**, xla 3 |" in markdown.render(found)
    (test,) = html.page_data(found, CheckoutSources(None))["tests"]
    assert json.loads(test)["growth"] == 1


def test_a_layer_that_the_baseline_limits_grows_beside_a_marker() -> None:
    test = by_marker("t.py::a") | {
        "baseline": {"graphs": {"dynamo": 2}, "breaks": [], "eager": []},
        "budget": {"graphs": {"dynamo": 1, "xla": 0}},
    }
    (seen,) = as_tests(test)
    assert (growth(seen), row(seen)) == (3, "t.py::a   dynamo 2, xla 0 -> 3, 1 graph break")


def test_an_improved_test_says_what_fell_where_its_graphs_did_not() -> None:
    test = over(now=1, verdict="improved", failed_by=None, outcome="passed")
    fewer = test["baseline"] | {"recompiles": {"dynamo": 1}}
    (seen,) = as_tests(test | {"nodeid": "t.py::a", "baseline": fewer})
    assert row(seen) == "t.py::a   dynamo 1, dynamo recompiles 1 -> 0"


def test_the_places_of_a_test_that_exceeds_its_marker_alone_are_those_that_its_baseline_has() -> (
    None
):
    (test,) = as_tests(over("t.py::a", 2, 2, cap={"layers": {"dynamo": 1}}))
    (cause,) = root_causes(by_nodeid([test])).findings
    assert cause.where.file == "models/head.py"
