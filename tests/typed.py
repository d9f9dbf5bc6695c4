"""What a type checker says of a user's code: ``tox -e lint`` runs mypy, strict, on this file.

An error that mypy does not find any more is an ignore that it does not need, which fails there.
"""

from __future__ import annotations

from typing_extensions import assert_type

from pytest_graphbreak import CompileModel, GraphBudget, Record, Run, observe
from pytest_graphbreak import Nonsense as Nonsense  # type: ignore[attr-defined]
from pytest_graphbreak.testing import GatedSuite


def test_fixtures(compile_model: CompileModel, graph_budget: GraphBudget) -> None:
    run = compile_model(len, "inputs", backend="eager", compile_options={"dynamic": True})
    assert_type(run, Run)
    assert_type(run.graphs, int)
    with graph_budget(max_graphs=1, xla=2, breaks=0) as seen:
        assert_type(seen.record, Record)
    with graph_budget(1) as seen:
        assert_type(seen.breaks, int)
    graph_budget(graphs=1)  # type: ignore[call-arg]
    graph_budget("1")  # type: ignore[arg-type]


def without_pytest() -> None:
    with observe() as seen, observe(1, recompiles=0):
        assert_type(seen.recompiles, int)
    observe(bananas=3)  # type: ignore[call-arg]
    observe(max_graphs="3")  # type: ignore[arg-type]


def test_gated_suite(gated_suite: GatedSuite) -> None:
    assert_type(gated_suite.run("--graph-budget").records, dict[str, Record])
