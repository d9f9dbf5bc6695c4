"""Functions compiled ahead of time have as many graphs and runs where they are loaded."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("torch")

from tests.conftest import Suite

pytestmark = pytest.mark.once

ENGINE = """
    import os
    import torch

    def model(x):
        return (x @ x).relu().sum()

    class Engine:
        def __init__(self, x, sources_changed=False):
            if os.path.exists("model.aot"):
                with open("model.aot", "rb") as file:
                    self.run = torch.compiler.load_compiled_function(file, f_globals=globals())
                if not sources_changed:
                    return
                del self.run
            self.run = torch.compile(model, fullgraph=True).aot_compile(((x,), {}))
            self.run.save_compiled_function("model.aot")

    def test_it():
        x = torch.ones(8, 8)
        engine = Engine(x, sources_changed=CHANGED)
        assert [engine.run(x).item() for _ in range(3)] == [512.0] * 3
"""


def entry(suite: Suite, *, changed: bool = False) -> dict[str, Any]:
    suite.write(ENGINE.replace("CHANGED", str(changed)))
    run = suite.run("--graph-budget", "--graph-budget-report=graphs.json")
    report = json.loads((suite.path / "graphs.json").read_text())
    assert run.ret == 0, run.outlines
    (test,) = report["tests"]
    return dict(test)


def test_cold_and_warm_are_the_same_count(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    """A baseline of the first start holds for every later one, and for one that compiles anew."""
    monkeypatch.chdir(suite.path)
    suite.write(ENGINE.replace("CHANGED", "False"))
    suite.run("--graph-budget-record").assert_outcomes(passed=1)
    warm, anew = entry(suite), entry(suite, changed=True)
    for test, cached in ((warm, "loaded"), (anew, None)):
        graph, below = test["graph_list"]
        assert test["verdict"] == "ok"
        assert (test["graphs"], test["frames"]) == (
            {"dynamo": 1, "inductor": 1},
            {"attempted": 1, "compiled": 1},
        )
        assert test["executions"]["dynamo"] == 3
        assert (graph["cause"], graph["cached"]) == ("entry", cached)
        # It is named by what was captured; who asked for it stands above.
        assert graph["where"]["function"] == "model"
        assert [frame["function"] for frame in graph["stack"]] == [
            "test_it",
            "Engine.__init__",
            "model",
        ]
        assert (below["from"], below["where"]) == ([graph["name"]], graph["where"])
        assert below["reason"].startswith("for f32[8, 8]; 1 kernel")


def test_a_red_one_names_the_function_and_who_asked(suite: Suite) -> None:
    suite.write(
        """
        import pytest
        import torch

        def model(x):
            return x.sin() + 1

        def start():
            torch.compile(model, fullgraph=True).aot_compile(((torch.ones(4),), {}))

        @pytest.mark.max_graphs(0)
        def test_it():
            start()
        """
    )
    run = suite.run()
    run.assert_outcomes(failed=1)
    run.stdout.fnmatch_lines(
        ["*test_it.py:* in model", "*from test_it.py:* in start", "*from test_it.py:* in test_it"]
    )
