"""Which settings a failure shows, and how."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.report import TestReport
from pytest_graphbreak.report.lines import measured_with
from pytest_graphbreak.report.summary import leaked_settings

pytestmark = pytest.mark.pure

XLA = {
    "torch._dynamo.config.automatic_dynamic_shapes": False,
    "torch._dynamo.config.specialize_float": True,
    "torch._functorch.config.view_replay_for_aliased_outputs": True,
}


def shown(settings: dict[str, object], *layers: str) -> list[str]:
    return [*map(str, measured_with(Record(layers=layers or ("dynamo",), settings=settings)))]


def test_one_line_for_each() -> None:
    settings = {"torch._dynamo.config.capture_scalar_outputs": True, "default_dtype": "torch.half"}
    assert shown(settings) == [
        "  settings  measured with capture_scalar_outputs = True",
        "            and default_dtype = torch.half",
    ]
    assert shown({}) == []


def test_inductor_decides_nothing_of_which_graphs_there_are() -> None:
    assert shown({"torch._inductor.config.triton.cudagraphs": True}) == []


def test_what_torch_xla_sets_is_reported_where_it_differs_or_torch_xla_is_not_there() -> None:
    assert shown(XLA, "dynamo", "xla") == []
    assert len(shown(XLA)) == 3
    other = XLA | {"torch._dynamo.config.automatic_dynamic_shapes": True}
    assert shown(other, "dynamo", "xla") == [
        "  settings  measured with automatic_dynamic_shapes = True"
    ]


def test_tests_that_left_the_same_are_one_line() -> None:
    def test(name: str, **leaks: Any) -> TestReport:
        return TestReport(f"tests/t.py::{name}", "passed", leaks=leaks)

    tests = [
        *(test(f"TestA::test_it[{case}::x]", stance="force_eager") for case in range(75)),
        test("test_b", stance="force_eager", limit=5),
        test("test_alone", stance="force_eager"),
        test("test_nothing"),
    ]
    assert leaked_settings(tests) == [
        "tests/t.py::TestA::test_it[0::x] and 75 others   left stance = force_eager",
        "tests/t.py::test_b   left stance = force_eager, limit = 5",
    ]
