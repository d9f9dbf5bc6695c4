"""``graph_budget_backend``: a cheap backend in place of the one that nobody asked for."""

from __future__ import annotations

import pytest

from tests.conftest import Suite

pytestmark = pytest.mark.once

MODEL = """
    import torch

    def test_model():
        torch.compile(lambda x: x + 1)(torch.ones(3))
"""


def test_it_compiles_and_its_counts_are_kept_apart(suite: Suite) -> None:
    suite.write(MODEL)
    options = ("-o", "graph_budget_backend=eager", "--graph-budget-device=cpu")
    (test,) = suite.report(*options)["tests"]
    assert test["graphs"] == {"dynamo": 1}  # and inductor has none
    result = suite.run("--graph-budget-record", *options, passed=1)
    result.stdout.fnmatch_lines(["graph-budget: record, profile cpu-eager, * eager*"])
    assert "profile: cpu-eager" in suite.baseline()
