"""What reports say where nothing was judged: graphs by cause, and the reasons of most tests."""

from __future__ import annotations

import pytest

from pytest_graphbreak.report.unjudged import unjudged_lines
from tests.reports import a_break, a_graph, a_test, as_tests, place

pytestmark = pytest.mark.pure


def broken(nodeid: str, times: int = 1) -> dict[str, object]:
    graphs = [a_graph("0/0"), *(a_graph(f"{n}/0", "break") for n in range(times))]
    return a_test(nodeid, 1 + times, breaks=[a_break(count=times)], graph_list=graphs)


def test_counts_causes_and_the_reasons_that_most_tests_share() -> None:
    rare = a_break(place(file="net.py", code="print(x)"), id="GB0059", reason="print", count=9)
    tests = [broken("t.py::a"), broken("t.py::b", 2), a_test("t.py::c", 2, breaks=[rare])]
    lines = [*map(str, unjudged_lines(as_tests(*tests)))]
    assert lines[:2] == [
        "not judged: what 3 tests made, by cause",
        "  dynamo   7 graphs = 3 entries + 4 after a break; 2 graph breaks, 0 recompiles",
    ]
    reasons = [line for line in lines if "x  " in line]
    assert reasons[0].startswith("       3x  graph break  GB0124")
    assert reasons[0].endswith("   in 2 tests")
    assert reasons[1] == "       9x  graph break  GB0059  print   in 1 test"


def test_what_was_judged_is_not_looked_at() -> None:
    judged = [
        a_test("t.py::ok", 3, verdict="ok"),
        a_test("t.py::ungated", 3, ungated="being fixed"),
        a_test("t.py::failed", 3, outcome="failed", failed_by="test"),
        a_test("t.py::nothing", 0),
    ]
    assert list(unjudged_lines(as_tests(*judged))) == []
