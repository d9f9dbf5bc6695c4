"""A failure is a true diff on every layer: what is new, what is gone, how much is known."""

from __future__ import annotations

import json

import pytest
import yaml

from tests.conftest import Suite

FUNCTIONS = """
    import torch

    def f(x):
        return x.sin() + 1

    def g(x):
        return x.cos() + 1

    def h(x):
        return x.tan() + 1

    def test_functions():
        for function in [FUNCTIONS]:
            torch.compile(function, backend="eager")(torch.ones(3))
"""


def functions(names: str) -> str:
    return FUNCTIONS.replace("FUNCTIONS", names)


@pytest.mark.once
def test_a_function_that_is_gone_is_named(suite: Suite) -> None:
    suite.write(functions("f, g"))
    suite.run("--graph-budget-record").assert_outcomes(passed=1)
    entry = yaml.safe_load(suite.baseline())["tests"]["test_functions"]
    places = [(item["cause"], item["where"]) for item in entry["causes"]]
    assert places == [("entry", "test_it.py::f"), ("entry", "test_it.py::g")]
    suite.write(functions("f, h"))
    (test,) = suite.report("--graph-budget")["tests"]
    assert test["verdict"] == "changed"
    result = suite.run("--graph-budget", "-o", "graph_budget_strict=true")
    result.stdout.fnmatch_lines(
        [
            "  + entry   a function that was not compiled before",
            "      test_it.py:* in h",
            "  - entry   no longer compiled",
            "      test_it.py:* in g",
            "          def g(x):",
        ]
    )
    suite.run("--graph-budget-update").assert_outcomes(passed=1)
    suite.run("--graph-budget", "-o", "graph_budget_strict=true").assert_outcomes(passed=1)


LAZY = """
    import torch
    import torch_xla

    def test_lazy():
        x = torch.ones(3, device="xla")
        LINES
"""


def lazy(*lines: str) -> str:
    return LAZY.replace("LINES", "\n        ".join(lines))


def test_a_grown_count_of_the_device_lists_what_is_new(suite: Suite) -> None:
    pytest.importorskip("torch_xla")
    known = ("a = (x + 1).sum().item()", "b = (x * 2).sum().item()", "y = x - 3")
    suite.write(lazy(*known, "torch_xla.sync()"))
    suite.run("--graph-budget-record").assert_outcomes(passed=1)
    assert len(yaml.safe_load(suite.baseline())["tests"]["test_lazy"]["causes"]) == 3
    suite.write(lazy(*known, "c = (x / 4).sum().item()", "torch_xla.sync()"))
    result = suite.run("--graph-budget", "--graph-budget-report=graphs.json")
    result.assert_outcomes(failed=1)
    (test,) = json.loads((suite.path / "graphs.json").read_text())["tests"]
    assert test["graphs"] == {"xla": 4}
    signs = [line for line in result.outlines if line.startswith(("  + ", "  - "))]
    assert signs == ["  + access   value read by .item()"]
    result.stdout.fnmatch_lines(["          c = (x / 4).sum().item()"])
