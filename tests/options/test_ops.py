"""``graph_budget_ops``: how far captured operations may fall while graphs do not grow."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.conftest import Suite

pytestmark = pytest.mark.once

MODEL = """
    import torch

    def layer(x):
        return (x + 1).relu()

    def rest(x):
        for _ in range(5):
            x = layer(x)
        return x

    def both(x):
        return rest(layer(x))

    def refuse(x):
        raise ValueError

    def caught(x):
        x = layer(x)
        try:
            x = rest(refuse(x))
        except ValueError:
            pass
        return x

    def test_model():
        RUN
"""
WHOLE = 'torch.compile(both, backend="eager")(torch.ones(3))'
FIRST = 'x = torch.compile(layer, backend="eager")(torch.ones(3))'
LEFT = {
    "a smaller region": f"{FIRST}; rest(x)",
    "disabled": f'{FIRST}; torch.compiler.disable(torch.compile(rest, backend="eager"))(x)',
    "a stance": f"""{FIRST}
        with torch.compiler.set_stance("force_eager"):
            torch.compile(rest, backend="eager")(x)""",
    "an exception that is caught": 'torch.compile(caught, backend="eager")(torch.ones(3))',
}


def model(run: str) -> str:
    return MODEL.replace("RUN", run)


def an_entry(ops: int, name: str) -> dict[str, Any]:
    """The entry of one graph that ran once."""
    return {"graphs": {"dynamo": 1}, "ops": {"dynamo": ops}, "entries": [f"test_it.py::{name}"]}


@pytest.fixture
def whole(suite: Suite) -> Suite:
    """A suite that was recorded with all of its model compiled."""
    suite.write(model(WHOLE))
    suite.run("--graph-budget-record", "--graph-budget-report=before.json", passed=1)
    return suite


@pytest.mark.parametrize("left", LEFT)
def test_what_leaves_the_compiler_is_lost(whole: Suite, left: str) -> None:
    entry = yaml.safe_load(whole.baseline())["tests"]["test_model"]
    assert entry == an_entry(12, "both")
    whole.write(model(LEFT[left]))
    result = whole.run("--graph-budget", "--graph-budget-report=graphs.json", failed=1)
    (test,) = whole.reported().values()
    assert (test["verdict"], test["graphs"], test["ops"]) == ("lost", {"dynamo": 1}, {"dynamo": 2})
    result.stdout.fnmatch_lines(
        [
            "graph budget: 2 captured operations in dynamo graphs, the baseline has 12 (-10)",
            "  - entry   no longer compiled",
            "      test_it.py:* in both",
            "  captured operations 12 -> 2 (dynamo)",
        ]
    )


def test_how_far_it_may_fall(whole: Suite) -> None:
    """By so many percent, unless a function of the baseline is compiled no more."""
    whole.write(model(FIRST))
    (test,) = whole.report("--graph-budget", "-o", "graph_budget_ops=90")["tests"]
    assert test["verdict"] == "lost"
    path = whole.path / "baselines" / "test_it.yaml"
    path.write_text(path.read_text().partition("    entries:")[0])
    for value, verdict in (("90", "changed"), ("off", "ok")):
        (test,) = whole.report("--graph-budget", "-o", f"graph_budget_ops={value}")["tests"]
        assert test["verdict"] == verdict, value


def test_an_update_writes_it(whole: Suite) -> None:
    whole.write(model(FIRST))
    whole.run("--graph-budget-record").assert_outcomes(failed=1)
    whole.run("--graph-budget-update").assert_outcomes(passed=1)
    entry = yaml.safe_load(whole.baseline())["tests"]["test_model"]
    assert entry == an_entry(2, "layer")
    whole.run("--graph-budget").assert_outcomes(passed=1)


def test_without_ops_it_is_judged_as_before(whole: Suite) -> None:
    path = whole.path / "baselines" / "test_it.yaml"
    path.write_text(before := re.sub(r"    (ops|entries): .*\n", "", path.read_text()))
    assert before.count("dynamo") == 1
    whole.write(model(FIRST))
    whole.run("--graph-budget-update").assert_outcomes(passed=1)
    assert path.read_text() == before


def test_check_and_accept_agree(whole: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_graphbreak.cli import main

    whole.write(model(FIRST))
    whole.run("--graph-budget", "--graph-budget-report=graphs.json")
    monkeypatch.chdir(whole.path)
    assert main(["check", "graphs.json"]) == 1
    assert main(["check", "graphs.json", "--against", "before.json"]) == 1
    whole.pytester.makeini("[pytest]\ngraph_budget_ops = off\n")
    assert main(["check", "graphs.json"]) == 0
    whole.pytester.makeini("[pytest]\ngraph_budget_ops = 10\n")
    assert main(["accept", "--yes", "graphs.json"]) == 0
    assert main(["check", "graphs.json"]) == 0
    assert "ops: {dynamo: 2}" in whole.baseline()
