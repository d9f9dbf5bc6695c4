"""CUDA graphs on stand-ins of the shape of torch's classes; ``benchmarks.gpu`` has real ones."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pytest_graphbreak import BudgetExceeded, observe

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.once

GRAPHS = """
from contextlib import contextmanager

class Base:
    def capture_begin(self): pass
    def capture_end(self): pass
    def replay(self): pass

class CUDAGraph(Base):
    def capture_begin(self): super().capture_begin()
    def capture_end(self): super().capture_end()
    def replay(self): super().replay()

class graph:
    def __init__(self, cuda_graph): self.cuda_graph = cuda_graph
    def __enter__(self): self.cuda_graph.capture_begin()
    def __exit__(self, *args): self.cuda_graph.capture_end()

def make_graphed_callables(function):
    held = CUDAGraph()
    with graph(held):
        function()
    return held.replay
"""
TREES = """
class CUDAGraphNode:
    def __init__(self, graphs, inputs):
        self.graphs, self.inputs, self.children = graphs, inputs, {}
        self.graph = graphs.CUDAGraph()
        self._record()

    def _record(self):
        with self.graphs.graph(self.graph):
            pass

    def check_invariants(self, inputs):
        return inputs == self.inputs, lambda: f"static input data pointer changed\\nby {inputs}"

class CUDAGraphTreeManager:
    def __init__(self, graphs):
        self.graphs, self.roots, self.current_node = graphs, {}, None
        with graphs.graph(graphs.CUDAGraph()):
            pass

    def record_function(self, new_inputs, function_id):
        node = CUDAGraphNode(self.graphs, new_inputs)
        self.roots.setdefault(function_id, []).append(node)
        return node.graph.replay()

    def run(self, new_inputs, function_id):
        for node in self.roots.get(function_id, ()):
            if node.check_invariants(new_inputs)[0]:
                return node.graph.replay()
        return self.record_function(new_inputs, function_id)

def log_cudagraph_skip_and_bump_counter(msg): pass
"""


def module(name: str, text: str) -> ModuleType:
    made = ModuleType(name)
    made.__spec__ = ModuleSpec(name, None)
    exec(compile(text, f"/site-packages/{name.replace('.', '/')}.py", "exec"), vars(made))
    return made


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Stand-ins in the places of torch's own."""
    graphs = module("torch.cuda.graphs", GRAPHS)
    trees = module("torch._inductor.cudagraph_trees", TREES)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", graphs.CUDAGraph)
    monkeypatch.setitem(sys.modules, "torch._inductor.cudagraph_trees", trees)
    before = {name: vars(graphs.CUDAGraph)[name] for name in ("capture_end", "replay")}
    yield SimpleNamespace(**vars(graphs), trees=trees, graphs=graphs)
    assert {name: vars(graphs.CUDAGraph)[name] for name in before} == before


def test_captures_are_graphs_and_replays_are_executions(cuda: Any) -> None:
    before = cuda.CUDAGraph()
    with observe() as seen:
        held = [cuda.CUDAGraph() for _ in range(3)]
        for graph in held:
            with cuda.graph(graph):
                pass
        for graph in (*held, before, before):
            graph.replay()
    record = seen.record
    assert record.graphs == {"cudagraph": 3}
    assert record.executions["cudagraph"] == 5
    assert record.errors == ()
    assert {(graph.cause, graph.where.code) for graph in record.graph_list} == {
        ("captured", "with cuda.graph(graph):")
    }
    assert {run.where.code for run in record.execution_list} == {"graph.replay()"}
    assert seen.graphs == 0  # the headline is of layers that are judged


def test_who_captured_is_the_cause(cuda: Any) -> None:
    with observe() as seen:
        manager = cuda.trees.CUDAGraphTreeManager(cuda.graphs)
        replay = cuda.make_graphed_callables(lambda: None)
        manager.run([1], "f")
        manager.run([1], "f")
        replay()
    record = seen.record
    assert [graph.cause for graph in record.graph_list] == ["callable", "tree"]
    assert record.executions["cudagraph"] == 3
    assert record.recompiles == {}


def test_what_is_recorded_again_is_a_recompile_with_its_reason(cuda: Any) -> None:
    manager = cuda.trees.CUDAGraphTreeManager(cuda.graphs)
    graph = cuda.CUDAGraph()
    with observe() as seen:
        manager.run([1], "f")
        manager.run([2], "g")
        manager.run([3], "f")
        for _ in range(2):
            with cuda.graph(graph):
                pass
    record = seen.record
    assert record.graphs == {"cudagraph": 5}
    assert [(item.reason, item.where.code) for item in record.recompile_list] == [
        ("static input data pointer changed", 'manager.run([3], "f")'),
        ("the same CUDAGraph was captured again", "with cuda.graph(graph):"),
    ]


def test_nothing_is_captured_after_the_warm_up(cuda: Any) -> None:
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        pass
    with observe(max_graphs=0):
        graph.replay()
    with pytest.raises(BudgetExceeded) as raised, observe(max_graphs=0), cuda.graph(graph):
        pass
    text = str(raised.value)
    assert "1 cudagraph graph, the block allows 0 (+1)" in text
    assert "observe(max_graphs=0), cuda.graph(graph):" in text

    def twice() -> None:
        with observe(executions={"cudagraph": 1}):
            graph.replay()
            graph.replay()

    with pytest.raises(BudgetExceeded, match="2 cudagraph executions, the block allows 1"):
        twice()


def test_a_capture_that_fails_is_no_graph(cuda: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(graph: Any) -> None:
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(cuda.graphs.Base, "capture_end", fails)
    failing = pytest.raises(RuntimeError, match="not permitted")
    with observe() as seen, failing, cuda.graph(cuda.CUDAGraph()):
        pass
    assert "cudagraph" not in seen.record.layers


def test_a_class_without_the_methods_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "CUDAGraph", type("CUDAGraph", (), {}))
    with observe() as seen:
        pass
    assert any("cudagraph: it cannot be observed" in error for error in seen.record.errors)
