"""The keys without an option: ``graph_budget_isolation``, ``_reasons``, ``_strict``."""

from __future__ import annotations

import importlib.util

import pytest

from tests.conftest import Suite


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
