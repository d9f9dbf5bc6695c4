"""``graph_budget_runs``: what runs is recorded before a change and judged after it.

Each change leaves the compiled graphs as they are.
"""

from __future__ import annotations

import importlib.util
import json
import textwrap
from typing import Any

import pytest

from tests.conftest import Suite

torch = pytest.importorskip("torch")

XLA = """
    import torch, torch_xla
    from torch import nn

    class Stack(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(12))

        def forward(self, x, cut=False):
            for layer in self.layers:
                x = layer(x).relu()
                if cut:
                    torch_xla.sync()
            return x

    @torch.no_grad()
    def train(cut=False, steps=3):
        model = Stack().to("xla")
        inputs = [torch.ones(4, 8).to("xla") for _ in range(steps)]
        torch_xla.sync()
        for x in inputs:
            x = model(x, cut)
            torch_xla.sync()
        x.cpu()

    def test_sync():
        train(cut=AFTER)

    def test_syncs_that_went():
        train(cut=not AFTER)

    def test_items():
        train()
        if AFTER:
            x = torch.ones(3).to("xla")
            for _ in range(5):
                x.cpu()

    def test_item():
        x = torch.ones(4, 8).to("xla")
        model = Stack().to("xla").requires_grad_(False)
        for _ in range(3):
            loss = model(x).sum()
            torch_xla.sync()
            loss.item()
            if AFTER:
                for _ in range(5):
                    loss.item()

    def test_fewer_steps():
        train(steps=1 if AFTER else 3)
"""

DYNAMO = """
    import pytest, torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x):
            return self.linear(x).relu()

    X = torch.ones(4, 8)

    def test_blocks():
        model = nn.Sequential(*(Block() for _ in range(6)))
        for block in model[2:] if AFTER else model:
            block.compile(backend="eager")
        with torch.no_grad():
            model(X)

    def test_original():
        model = torch.compile(Block(), backend="eager")
        for i in range(4):
            model._orig_mod(X) if AFTER and i else model(X)

    def test_stance():
        model = torch.compile(Block(), backend="eager")
        for i in range(4):
            with torch.compiler.set_stance("force_eager" if AFTER and i else "default"):
                model(X)

    def test_more():
        model = torch.compile(Block(), backend="eager")
        for _ in range(5 if AFTER else 2):
            model(X)
"""


def judged(suite: Suite, source: str, *args: str) -> tuple[dict[str, Any], str]:
    """The tests of a report after the change, by name, and what the run printed."""
    source = textwrap.dedent(source)
    suite.write("AFTER = False\n" + source)
    suite.run("--graph-budget-record")
    suite.write("AFTER = True\n" + source)
    result = suite.run("--graph-budget", "--graph-budget-report=graphs.json", *args)
    tests = json.loads((suite.path / "graphs.json").read_text())["tests"]
    assert all(test["graphs"] == test["baseline"]["graphs"] for test in tests)
    return {test["nodeid"].rpartition("::test_")[2]: test for test in tests}, str(result.stdout)


def verdicts(tests: dict[str, Any]) -> dict[str, str]:
    return {name: test["verdict"] for name, test in tests.items()}


@pytest.mark.once
def test_fewer_calls_are_improved_and_a_call_more_is_shown(suite: Suite) -> None:
    tests, printed = judged(suite, DYNAMO)
    assert {name: test["executions"]["dynamo"] for name, test in tests.items()} == {
        "blocks": 4,
        "original": 1,
        "stance": 1,
        "more": 5,
    }
    assert verdicts(tests) == {
        "blocks": "improved",
        "original": "improved",
        "stance": "improved",
        "more": "changed",
    }
    assert tests["more"]["failed_by"] is None
    assert "test_more   dynamo 1, dynamo executions 2 -> 5\n" in printed
    assert "+ 3 executions: a compiled function was called" in printed


@pytest.mark.once
def test_more_runs_fail_only_where_that_is_asked_for(suite: Suite) -> None:
    tests, printed = judged(suite, DYNAMO, "-o", "graph_budget_runs=fail")
    assert verdicts(tests)["more"] == "over"
    assert "5 dynamo executions, the baseline allows 2 (+3)" in printed


@pytest.mark.skipif(not importlib.util.find_spec("torch_xla"), reason="needs torch_xla")
def test_a_sync_in_a_loop_and_more_reads_are_over_with_their_lines_alone(suite: Suite) -> None:
    tests, printed = judged(suite, XLA, "-o", "graph_budget_runs=fail")
    assert verdicts(tests) == {
        "sync": "over",
        "syncs_that_went": "improved",
        "items": "over",
        "item": "over",
        "fewer_steps": "improved",
    }
    new = {
        name: [
            (one["where"].get("code"), one["after"])
            for one in test["changes"]
            if not one["total"] and one["kind"] in ("execution", "read")
        ]
        for name, test in tests.items()
    }
    assert new["sync"] == [("torch_xla.sync()", 36)]
    assert new["items"] == [(None, 6)]  # cpu() is counted, and has no line
    assert new["item"] == [("loss.item()", 18)]  # equal text in one function is one line
    item = tests["item"]
    assert (item["baseline"]["reads"]["xla"], item["reads"]["xla"]) == (3, 18)
    assert item["executions"]["xla"] == item["baseline"]["executions"]["xla"]
    sync = tests["sync"]
    assert sync["executions"]["xla"] - sync["baseline"]["executions"]["xla"] == 33
    assert "test_it.py:15 in Stack.forward" in printed
