"""The keys without an option: ``graph_budget_isolation``, ``_reasons``, ``_strict``."""

from __future__ import annotations

import importlib.util

import pytest

from tests.conftest import BROKEN, CLEAN, Suite


@pytest.mark.once
def test_isolation_none_leaves_the_caches_alone(suite: Suite) -> None:
    suite.write(
        """
        import torch
        compiled = torch.compile(lambda x: x + 1, backend="eager")
        def test_first(): compiled(torch.ones(3))
        def test_second(): compiled(torch.ones(3))
        """
    )
    cold = [test["graphs"] for test in suite.report()["tests"]]
    assert cold == [{"dynamo": 1}, {"dynamo": 1}]
    warm = suite.report("-o", "graph_budget_isolation=none")
    assert [test["graphs"] for test in warm["tests"]][1] == {}


@pytest.mark.skipif(importlib.util.find_spec("torch_xla") is None, reason="needs torch_xla")
def test_without_reasons_xla_graphs_are_only_counted(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    suite.write(
        """
        import torch, torch_xla
        def test_it(graph_budget):
            with graph_budget() as seen:
                x = torch.ones(3, device=torch_xla.device()) + 1
                assert x.sum().item() == 6
            assert seen.graphs == 1
        """
    )
    (reported,) = suite.report()["tests"]
    (bare,) = suite.report("-o", "graph_budget_reasons=false")["tests"]
    assert reported["graphs"] == bare["graphs"] == {"xla": 1}
    assert [graph["cause"] for graph in reported["graph_list"]] == ["access"]
    assert bare["graph_list"] == []
    (again,) = suite.report()["tests"]
    assert [graph["cause"] for graph in again["graph_list"]] == ["access"]


@pytest.mark.once
@pytest.mark.parametrize(("before", "after"), [(BROKEN, CLEAN)], ids=["improved"])
def test_strict_fails_an_improvement(suite: Suite, before: str, after: str) -> None:
    suite.write(before)
    suite.run("--graph-budget-update")
    suite.write(after)
    suite.run("--graph-budget").assert_outcomes(passed=1)
    suite.run("--graph-budget", "-o", "graph_budget_strict=true").assert_outcomes(failed=1)


@pytest.mark.once
def test_strict_fails_a_change(suite: Suite) -> None:
    suite.write(BROKEN)
    suite.run("--graph-budget-update")
    suite.write(BROKEN.replace("hello", "good bye"))
    suite.run("--graph-budget").assert_outcomes(passed=1)
    result = suite.run("--graph-budget", "-o", "graph_budget_strict=true")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["graph budget: changed, 2 dynamo graphs, 1 graph break"])
