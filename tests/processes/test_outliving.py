"""Blocks see what a process compiles that was started before them, and that outlives them."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

import pytest

from tests.conftest import Suite
from tests.examples import sample

SERVER = """
import multiprocessing

import pytest

def serve(pipe):
    import torch
    compiled = torch.compile(lambda x: x + 1, backend="eager", dynamic=False)
    for size in iter(pipe.recv, 0):
        compiled(torch.ones(size))
        pipe.send("done")

class Server:
    def __init__(self, method):
        context = multiprocessing.get_context(method)
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs,), name="engine", daemon=True)
        self.process.start()

    def ask(self, size):
        self.pipe.send(size)
        self.pipe.recv()

    def end(self):
        self.pipe.send(0)
        self.process.join()
"""

BLOCKS = """
@pytest.fixture(scope="session", params={methods})
def server(request):
    server = Server(request.param)
    yield server
    server.end()

def test_that_asks_for_no_block(server):
    server.ask(3)

def test_warm(server, graph_budget):
    server.ask(3)
    with graph_budget(max_graphs=0):
        server.ask(3)

def test_cold(server, graph_budget):
    with graph_budget(max_graphs=0):
        server.ask(4)
"""


def started(*methods: str) -> str:
    return SERVER + BLOCKS.format(methods=list(methods))


@pytest.mark.usefixtures("forks")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize(
    "options",
    [
        pytest.param((), marks=pytest.mark.once, id="plain"),
        # pytest-forked is in the xla environment only.
        pytest.param(("--forked",), marks=pytest.mark.nightly, id="forked"),
    ],
)
def test_a_block_sees_a_server_that_a_fixture_started(
    suite: Suite, options: tuple[str, ...]
) -> None:
    """No option asks for the gate: only the blocks do."""
    suite.write(started("fork", "spawn"))
    if options:
        pytest.importorskip("pytest_forked")
    result = suite.run(*options)
    result.assert_outcomes(passed=4, failed=2)
    result.stdout.fnmatch_lines(
        ["*BudgetExceeded: graph budget: 1 dynamo graph, the block allows 0 (+1)"] * 2
    )


@pytest.mark.once
def test_a_session_without_blocks_tells_no_child(suite: Suite, monkeypatch: Any) -> None:
    suite.write("import os\ndef test_it(): assert 'GRAPHBREAK_CHILDREN' not in os.environ")
    suite.run().assert_outcomes(passed=1)


ON_DEVICE = (
    SERVER
    + """
def serve(pipe):
    import torch_xla, torch  # torch is imported by torch_xla, half-way
    for size in iter(pipe.recv, 0):
        pipe.send((torch.ones(size, device="xla") * 2).sum().item())
"""
)
LAZY = """
def test_it(graph_budget):
    server = Server("spawn")
    with graph_budget() as warm:
        server.ask(3)
    assert "it was still running: device graphs" in warm.record.note
    with graph_budget() as last:
        server.pipe.send(0)
        server.process.join()
    assert last.graphs == 1
    (graph,) = last.record.graph_list
    assert (graph.layer, graph.cause, graph.process) == ("xla", "access", "engine")
    assert graph.where.code.startswith("pipe.send((torch.ones(size")
"""
KILLED = """
def test_killed(graph_budget):
    server = Server("spawn")
    with graph_budget() as seen:
        server.ask(3)
        server.process.kill()
        server.process.join()
    assert "it was killed: device graphs" in seen.record.note
"""


@pytest.mark.skipif(importlib.util.find_spec("torch_xla") is None, reason="needs torch_xla")
@pytest.mark.parametrize(
    "program", sample([LAZY, KILLED], [LAZY]), ids=["it goes on", "it is killed"]
)
def test_device_graphs_that_no_hook_saw_are_late_and_noted(suite: Suite, program: str) -> None:
    """torch_xla compiles when a value is read, and calls nobody."""
    suite.write(ON_DEVICE + program)
    suite.run().assert_outcomes(passed=1)


HURT = """
import multiprocessing, os, time

import pytest

def compiling(pipe):
    def backend(gm, args):
        pipe.send("compiling")
        time.sleep(100)
    import torch
    pipe.recv()
    torch.compile(lambda x: x + 1, backend=backend)(torch.ones(3))

@pytest.fixture
def engine():
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=compiling, args=(theirs,), name="engine", daemon=True)
    process.start()
    yield process, ours
    process.kill()
    process.join()

def test_killed(engine, graph_budget):
    process, pipe = engine
    with graph_budget(max_graphs=0):
        pipe.send("go")
        pipe.recv()
        process.kill()
        process.join()

def test_hangs(engine, graph_budget):
    process, pipe = engine
    with graph_budget(max_graphs=1):
        pipe.send("go")
        pipe.recv()

"""


@pytest.mark.once
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_compilation_that_does_not_end_is_over_any_budget(suite: Suite) -> None:
    suite.write(HURT)
    result = suite.run()
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "*BudgetExceeded: graph budget: could not see: in the process engine: "
            "it ended in the middle of a compilation, which is not counted",
            "*BudgetExceeded: graph budget: could not see: in the process engine: "
            "it was still compiling when the test ended: the rest is not counted",
        ]
    )


RUNS = (
    SERVER.replace("compiled(torch.ones(size))", "for _ in range(5): compiled(torch.ones(size))")
    + """
@pytest.fixture(scope="session")
def server():
    server = Server("spawn")
    server.ask(3)
    yield server
    server.process.kill()  # as engines end their workers

def test_runs_are_told(server, graph_budget):
    for _ in range(2):
        with graph_budget(max_graphs=0, executions=5) as seen:
            server.ask(3)
        (line,) = seen.record.execution_list
        assert (seen.record.executions["dynamo"], line.count, line.process) == (5, 5, "engine")
        assert line.where.function == "serve"

def test_one_more_is_red(server, graph_budget):
    with graph_budget(executions=4):
        server.ask(3)

def test_steps_of_a_worker(server, graph_budget):
    with graph_budget.steps(warm=1) as steps:
        for requests in (1, 1, 2):
            with steps.step():
                for _ in range(requests):
                    server.ask(3)

def test_what_cannot_be_told_is_no_zero(server, graph_budget, monkeypatch):
    import pytest_graphbreak.layers.children.spool as spool
    monkeypatch.setattr(spool, "MOST", 0)  # as if the worker had more lines than are told
    with graph_budget(max_graphs=0) as seen:
        server.ask(3)
    assert seen.record.executions == {"dynamo": None}
    with graph_budget(executions=5):
        server.ask(3)
"""
)


@pytest.mark.once
def test_runs_in_a_worker_that_lives_on(suite: Suite) -> None:
    """It compiles nothing more, so nothing but its runs would be told."""
    suite.write(RUNS)
    result = suite.run()
    result.assert_outcomes(passed=1, failed=3)
    result.stdout.fnmatch_lines(
        [
            "*BudgetExceeded: graph budget: 5 dynamo executions, the block allows 4 (+1)",
            "*graph budget: step 3: 10 dynamo executions, the step before allows 5 (+5)",
            "*could not see: the dynamo executions of a process that lives on are not known*",
        ]
    )
