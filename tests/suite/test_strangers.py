"""Runs that ours must not change: finders and fakes of a test, odd objects, signal handlers."""

from __future__ import annotations

import importlib.util

import pytest

from tests.conftest import Suite

pytest.importorskip("torch")

FINDER = """
    import sys
    from unittest import mock

    import pytest, torch

    class Mine:
        alive = []
        def find_spec(self, name, path=None, target=None):
            assert self in self.alive, "a finder outlived its fixture"

    @pytest.fixture
    def finder():
        mine = Mine()
        Mine.alive.append(mine)
        sys.meta_path.insert(0, mine)
        yield
        assert sys.meta_path.pop(0) is mine
        Mine.alive.clear()

    def run(): torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))

    def test_with_a_finder(finder): run()
    def test_after():
        import colorsys
        run()
"""

FAKES = """
    import sys
    from unittest import mock

    import pytest

    @pytest.mark.parametrize("fake", [mock.Mock, mock.MagicMock])
    @pytest.mark.parametrize("name", ["torch_xla", "jax", "jaxlib", "triton", "tt_torch"])
    def test_fake(monkeypatch, name, fake): monkeypatch.setitem(sys.modules, name, fake())
"""


@pytest.mark.once
@pytest.mark.usefixtures("forks")
def test_a_finder_that_a_fixture_takes_out_by_its_place(suite: Suite) -> None:
    suite.write(FINDER)
    suite.run_apart("--graph-budget-report=graphs.json", passed=2)
    assert [test["graphs"] for test in suite.reported().values()] == [{"dynamo": 1}] * 2


@pytest.mark.once
def test_a_fake_compiler_is_no_layer(suite: Suite) -> None:
    suite.write(FAKES)
    for test in suite.tests().values():
        assert (test["verdict"], test["errors"], test["graphs"]) == ("none", [], {})


ODD = """
    import torch

    class Refuses:
        def __getattr__(self, name): raise RuntimeError(name)
        def __eq__(self, other): raise RuntimeError("eq")
        def __bool__(self): raise RuntimeError("bool")
        def __len__(self): raise RuntimeError("len")
        __hash__ = object.__hash__

    class Classless(torch.nn.Linear):
        @property
        def __class__(self): return torch.nn.Module

    def run(budget, module, odd=None):
        made = []

        def backend(graph, inputs):
            made.append(graph)
            return graph

        def function(x, module, odd):
            torch._dynamo.graph_break()
            return module(x)
        compiled = torch.compile(function, backend=backend, dynamic=False)
        with budget() as seen:
            compiled(torch.ones(1, 3), module, odd)
            compiled(torch.ones(2, 3), module, odd)
        assert seen.record.graphs.get("dynamo", 0) == len(made)

    def test_of_torchscript(graph_budget):
        run(graph_budget, torch.jit.script(torch.nn.Linear(3, 3)))
    def test_of_fx(graph_budget):
        run(graph_budget, torch.fx.symbolic_trace(torch.nn.Linear(3, 3)))
    def test_lazy(graph_budget): run(graph_budget, torch.nn.LazyLinear(3))
    def test_that_refuses(graph_budget): run(graph_budget, torch.nn.Linear(3, 3), Refuses())
    def test_classless(graph_budget): run(graph_budget, Classless(3, 3))
    def test_an_error_that_refuses_to_be_printed():
        class Silent(Exception):
            def __str__(self): raise RuntimeError("str")
        def backend(graph, inputs): raise Silent
        try:
            torch.compile(lambda x: x + 1, backend=backend)(torch.ones(3))
        except Exception:
            pass
"""


@pytest.mark.once
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_odd_object_blinds_no_sensor(suite: Suite) -> None:
    suite.write(ODD)
    tests = suite.tests("-W", "ignore")
    assert {name: test["errors"] for name, test in tests.items()} == {name: [] for name in tests}
    assert {test["outcome"] for test in tests.values()} == {"passed"}


READS = """
    import signal, time
    import torch, torch_xla

    def test_a_handler_that_reads_a_value():
        loss, seen = torch.ones(5).to(torch_xla.device()), []

        def show(*_):
            seen.append(loss.sum().item())
            signal.setitimer(signal.ITIMER_REAL, 0.002)

        before = signal.signal(signal.SIGALRM, show)
        signal.setitimer(signal.ITIMER_REAL, 0.002)
        try:
            until = time.time() + 2
            while time.time() < until:
                loss[0].item()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert seen
"""


@pytest.mark.skipif(importlib.util.find_spec("torch_xla") is None, reason="needs torch_xla")
@pytest.mark.usefixtures("xla_forks")
def test_a_signal_handler_reads_while_the_program_does(suite: Suite) -> None:
    suite.write(READS)
    suite.run_apart("--graph-budget-report=graphs.json", timeout=120, passed=1)
    (test,) = suite.reported().values()
    assert test["errors"] == []
    assert test["reads"]["xla"] == sum(line["count"] for line in test["read_list"])
