"""A test's own fixtures are part of the test: what they do is as without the plugin, and counted.

Each suite here runs twice, with the plugin turned off and with the report, and
its tests have the same outcomes. What each made was worked out by hand.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from tests.conftest import Suite
from tests.processes.tools import both_ways
from tests.reports import timeless

HAS_XLA = importlib.util.find_spec("torch_xla") is not None

HEAD = """
import functools, types, unittest
import pytest, torch
import torch._dynamo
from torch._dynamo import compiled_autograd
from torch._dynamo.callback import callback_handler, on_compile_start
from torch._dynamo.testing import CompileCounter
from torch._dynamo.utils import counters

# As an earlier test of another file would have left it.
torch._dynamo.reset()

X = torch.ones(3)

def f(x):
    return torch.sin(x) + 1

class Engine:
    def __init__(self, function=f):
        self.counter = CompileCounter()
        # A code object of its own, or all of them together meet the recompile limit.
        own = types.FunctionType(function.__code__.replace(), globals())
        self.run = torch.compile(own, backend=self.counter)

    @property
    def graphs(self):
        return self.counter.frame_count

def warmed(function=f, x=X):
    engine = Engine(function)
    engine.run(x)
    return engine
"""

SUITE = (
    HEAD
    + """
# callbacks, entered by a fixture

@pytest.fixture(scope="module")
def started_for_all():
    times = []
    callback = on_compile_start(lambda *args: times.append(1))
    yield times
    callback_handler.remove_start_callback(callback)

def test_on_compile_start_of_the_module(started_for_all):
    before = len(started_for_all)
    Engine(lambda x: x * 5).run(X)
    assert len(started_for_all) == before + 1

# compiled autograd

def backward_compiler(times, gm):
    def compiled(*args):
        times.append(1)
        return gm(*args)
    return compiled

@pytest.fixture(scope="module")
def autograd_for_all():
    times = []
    with compiled_autograd._enable(functools.partial(backward_compiler, times)):
        yield times

# stances

@pytest.fixture
def no_recompiles():
    engine = warmed()
    with torch.compiler.set_stance("fail_on_recompile"):
        yield engine

def test_fail_on_recompile(no_recompiles):
    no_recompiles.run(X)
    assert no_recompiles.graphs == 1
    with pytest.raises(RuntimeError):
        no_recompiles.run(torch.ones(3, dtype=torch.float64))

# warm in the fixture

@pytest.fixture
def warm():
    return warmed()

def test_warm(warm):
    warm.run(X)
    assert warm.graphs == 1

@pytest.fixture
def counted():
    counters.clear()
    yield warmed()
    assert counters["stats"]["unique_graphs"] == 1

def test_counted_until_the_fixture_ends(counted):
    counted.run(X)

@pytest.mark.usefixtures("no_recompiles")
def test_used_and_not_named():
    pass

def test_asked_for_in_the_call(request):
    engine = request.getfixturevalue("warm")
    engine.run(X)
    assert engine.graphs == 1

# what set-up is called elsewhere

class TestMethods:
    @classmethod
    def setup_class(cls):
        cls.wide = Engine(lambda x: x * 7)
        cls.wide.run(X)

    def setup_method(self):
        self.engine = warmed()

    def test_method(self):
        self.engine.run(X)
        assert self.engine.graphs == 1

    def test_class(self):
        self.wide.run(X)

class TestCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.wide = Engine(lambda x: x * 9)
        cls.wide.run(X)

    def setUp(self):
        self.engine = warmed()

    def test_case(self):
        self.engine.run(X)
        assert self.engine.graphs == 1

# wider fixtures

@pytest.fixture(scope="session")
def engine():
    return warmed(lambda x: x * 11)

def test_asked_for_a_wide_one_first(request):
    request.getfixturevalue("engine").run(X)

def test_asked_for_a_wide_one_again(request):
    request.getfixturevalue("engine").run(X)

def test_wide(engine):
    engine.run(X)

@pytest.fixture
def skips(warm):
    pytest.skip("not here")

def test_skipped(skips):
    pass

@pytest.fixture
def fails(warm):
    raise ValueError("not today")

@pytest.mark.xfail(raises=ValueError)
def test_fixture_fails(fails):
    pass

def test_after_it():
    warmed()

# From here on: the module's fixture is entered.
def test_compiled_autograd_of_the_module(autograd_for_all):
    autograd_for_all.clear()
    x = torch.ones(3, requires_grad=True)
    x.cos().sum().backward()
    assert autograd_for_all == [1]
"""
)

GRAPHS = {
    "test_on_compile_start_of_the_module": (1, 0),
    "test_fail_on_recompile": (1, 1),
    "test_warm": (1, 1),
    "test_counted_until_the_fixture_ends": (1, 1),
    "test_used_and_not_named": (1, 1),
    "test_asked_for_in_the_call": (1, 0),
    "TestMethods::test_method": (1, 1),
    "TestMethods::test_class": (2, 1),
    "TestCase::test_case": (1, 0),
    "test_asked_for_a_wide_one_first": (1, 0),
    "test_asked_for_a_wide_one_again": (1, 0),
    "test_wide": (1, 0),
    "test_skipped": (1, 1),
    "test_fixture_fails": (1, 1),
    "test_after_it": (1, 0),
    "test_compiled_autograd_of_the_module": (0, 0),
}
"""Graphs of each test, and how many of them its fixtures made."""

XLA = (
    HEAD
    + """
import torch_xla
import torch_xla.debug.metrics as metrics

def compiles():
    return (metrics.metric_data("CompileTime") or (0,))[0]

@pytest.fixture(scope="session", autouse=True)
def device():
    return torch_xla.device()

@pytest.fixture
def pending():
    return torch.ones(2, 4, device="xla") * 3

def test_pending(pending):
    out = torch.compile(lambda x: torch.sin(x) + 1, backend="openxla")(pending)
    torch_xla.sync()

def test_pending_read(pending):
    before = compiles()
    assert pending.sum().item() == 24
    assert compiles() == before + 1

@pytest.fixture
def step():
    def step():
        x = torch.ones(4, 4, device="xla")
        y = x * 2 + 3
        torch_xla.sync()
    step()
    return step

def test_steady(step):
    before = compiles()
    step()
    assert compiles() == before

@pytest.fixture
def cleared():
    x = torch.ones(6, device="xla") + 1
    torch_xla.sync()
    metrics.clear_all()

def test_cleared(cleared):
    assert compiles() == 0
    x = torch.ones(7, device="xla") + 1
    torch_xla.sync()
    assert compiles() == 1

@pytest.fixture(scope="module")
def wide():
    x = torch.ones(8, device="xla") + 5
    torch_xla.sync()

def lazy():
    x = torch.ones(8, device="xla") + 5
    torch_xla.sync()

def test_asked_for_a_wide_one_first(request):
    request.getfixturevalue("wide")
    lazy()

def test_asked_for_a_wide_one_again(request):
    request.getfixturevalue("wide")
    lazy()

@pytest.fixture(scope="module")
def leaves():
    return torch.ones(9, device="xla") * 5

def test_asked_for_what_is_pending_first(request):
    assert request.getfixturevalue("leaves").sum().item() == 45

def test_asked_for_what_is_pending_again(request):
    assert request.getfixturevalue("leaves").sum().item() == 45
"""
)

XLA_GRAPHS = {
    "test_pending": (2, 0),
    "test_pending_read": (1, 0),
    "test_steady": (1, 1),
    "test_cleared": (2, 1),
    "test_asked_for_a_wide_one_first": (1, 0),
    "test_asked_for_a_wide_one_again": (1, 0),
    "test_asked_for_what_is_pending_first": (1, 0),
    "test_asked_for_what_is_pending_again": (1, 0),
}


def made(tests: dict[str, Any], layer: str) -> dict[str, tuple[int, int]]:
    return {
        name: (test["graphs"].get(layer, 0), test["setup"]["own"].get(layer, 0))
        for name, test in tests.items()
    }


@pytest.mark.once
def test_fixtures_do_what_they_do_without_the_plugin(suite: Suite) -> None:
    tests = both_ways(suite, SUITE)
    assert made(tests, "dynamo") == GRAPHS
    assert [test["nodeid"] for test in tests.values() if test["errors"]] == []
    around = {name: test["setup"]["graphs"] for name, test in tests.items()}
    assert {name: graphs["dynamo"] for name, graphs in around.items() if graphs} == {
        "TestMethods::test_method": 1,
        "TestCase::test_case": 1,
        "test_asked_for_a_wide_one_first": 1,
    }
    first, again = (tests[f"test_asked_for_a_wide_one_{when}"] for when in ("first", "again"))
    assert timeless(first["graph_list"]) == timeless(again["graph_list"])


@pytest.mark.skipif(not HAS_XLA, reason="torch_xla is not installed")
@pytest.mark.usefixtures("xla_forks")
def test_fixtures_do_what_they_do_on_the_device(suite: Suite) -> None:
    tests = both_ways(suite, XLA, apart=True)
    assert made(tests, "xla") == XLA_GRAPHS
    assert [test["errors"] for test in tests.values() if test["errors"]] == []
    first = tests["test_asked_for_a_wide_one_first"]
    assert first["setup"]["graphs"] == {"xla": 1}
