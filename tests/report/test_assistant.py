"""The report for assistants: each cause once, with what its fix needs and nothing to parse."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_graphbreak.cli import explain
from pytest_graphbreak.config.typed import Typed
from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.report.checkout import CheckoutSources
from tests.reports import Data, a_break, a_graph, a_test, as_tests, over, place

pytestmark = pytest.mark.pure

PRINT = place(line=4, code="print(scores)")
REASON = "Failed to trace builtin operator"
NOWHERE = CheckoutSources(None)


def reported(*tests: Data, sources: CheckoutSources = NOWHERE) -> list[Plain]:
    read = as_tests(*tests)
    gated = {test.nodeid for test in read if explain.is_compared(test)}
    return [explain.finding_dict(one, sources, Typed(), gated) for one in explain.findings(read)]


def test_a_marker_is_verified_without_baselines() -> None:
    (found,) = reported(red("t.py::test") | {"baseline": None})
    assert found["verify"] == "pytest t.py::test"
    (found,) = reported(red("t.py::test"))
    assert found["verify"] == "pytest --graph-budget t.py::test"


def red(nodeid: str = "tests/test_a.py::test_b[a b]") -> Data:
    return over(
        nodeid,
        1,
        2,
        breaks=[a_break(PRINT, id="GB0059", reason=REASON, explanation="builtin operator `print`")],
    )


def test_a_cause_of_many_tests_is_one_finding_that_names_some() -> None:
    (found,) = reported(*(red(f"t.py::test[{number}]") for number in range(30)))
    assert (found["red"], len(found["tests"])) == (30, explain.MOST_TESTS)


def test_source_that_the_checkout_does_not_have_is_null_and_not_a_guess(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models/head.py").write_text("another = 1\n" * 9)
    (found,) = reported(red(), sources=CheckoutSources(tmp_path))
    assert found["source"] is None


def test_of_a_script_each_break_is_a_finding_and_none_is_red() -> None:
    script = a_test("train.py", 3, graph_list=[a_graph()])
    found = reported(script, a_test("other.py", 3, graph_list=[a_graph()]))
    assert [one["where"]["line"] for one in found] == [10, 11]
    assert {one["judged"] for one in found} == {False}
    assert {one["red"] for one in found} == {0}
    assert found[0]["tests"] == ["other.py", "train.py"]
    assert found[0]["verify"] == "graphbreak run other.py"
