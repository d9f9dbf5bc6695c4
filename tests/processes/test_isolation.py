"""A count belongs to the test, not to the order: one suite, run in every way, same records."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.reports import timeless
from tests.upstream import THREADS_CRASH

SUITE = """
import threading
import pytest, torch

def shared(x):
    y = torch.sin(x)
    print("hello")
    return y + 1

compiled = torch.compile(shared, backend="eager")          # one wrapper for all tests
sized = torch.compile(lambda x: x * 2, backend="eager")

@pytest.fixture(scope="module")
def model():
    module = torch.compile(torch.nn.Linear(4, 4), backend="eager")
    module(torch.ones(2, 4))                                # compiled in setup already
    return module

def test_break(): compiled(torch.ones(3))
def test_break_again(): compiled(torch.ones(3))

@pytest.mark.parametrize("n", [3, 7, 9])
def test_sizes(n): sized(torch.ones(n))                     # would turn dynamic in one process

def test_many_sizes():
    for n in (4, 5, 6): sized(torch.ones(n))

@pytest.mark.parametrize("k", [1, 2, 3])
def test_local_function(k):
    def f(x): return x + k                                  # one code object for all three
    torch.compile(f, backend="eager")(torch.ones(3))

def test_model(model): model(torch.ones(2, 4))
def test_model_again(model): model(torch.ones(2, 4))

def test_thread():
    thread = threading.Thread(target=compiled, args=(torch.ones(3),))
    thread.start(); thread.join()

def test_recompile_limit():
    def f(x, n): return x + n
    g = torch.compile(f, backend="eager", dynamic=False)
    for n in range(12): g(torch.ones(3), n)

def test_backward():
    x = torch.ones(3, requires_grad=True)
    compiled(x).sum().backward()

def test_nothing(): pass

class TestClass:
    def test_method(self): compiled(torch.ones(3))
"""

if THREADS_CRASH:
    SUITE = SUITE.replace("def test_thread():", "def no_test_thread():")

XLA = """
import torch_xla

@pytest.fixture(scope="session", autouse=True)
def device():
    # Before any backward, since the autograd engine counts the devices once; and not when
    # this file is imported, since --forked would then fork a client with its threads gone.
    torch_xla.device()

def lazy(device):
    return torch.ones(3, device=device) + 1

def test_lazy():
    kept = lazy(torch_xla.device()); torch_xla.sync()

def test_lazy_again():
    kept = lazy(torch_xla.device()); torch_xla.sync()

def test_item():
    assert lazy(torch_xla.device()).sum().item() == 6

openxla = torch.compile(lambda x: torch.sin(x) + 1, backend="openxla")

def test_openxla():
    kept = openxla(torch.ones(3).to(torch_xla.device())); torch_xla.sync()

def test_openxla_again():
    kept = openxla(torch.ones(3).to(torch_xla.device())); torch_xla.sync()

def test_leaves_work_pending():
    test_leaves_work_pending.kept = lazy(torch_xla.device()) * 5

def test_xla_backward():
    x = torch.ones(3, device=torch_xla.device(), requires_grad=True)
    (x * 2).sum().backward(); torch_xla.sync()
"""

HAS_XLA = importlib.util.find_spec("torch_xla") is not None

ORDER = """
import os, random

def pytest_collection_modifyitems(items):
    order = os.environ.get("TEST_ORDER")
    if order == "reverse":
        items.reverse()
    elif order:
        random.Random(int(order)).shuffle(items)
"""


class Runs:
    """Runs the suite in a process of its own and gives every record, by node id."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.write(SUITE + (XLA if HAS_XLA else ""))
        (path / "conftest.py").write_text(ORDER)
        (path / "pytest.ini").write_text("[pytest]\n")

    def write(self, source: str) -> None:
        (self.path / "test_suite.py").write_text(source)

    def report(self, *args: str, order: str = "") -> list[dict[str, Any]]:
        """What the run's report says of each test."""
        path = self.path / "graphs.json"
        path.unlink(missing_ok=True)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", f"--graph-budget-report={path}", *args],
            cwd=self.path,
            env={**os.environ, "PJRT_DEVICE": "CPU", "TEST_ORDER": order},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout
        tests: list[dict[str, Any]] = json.loads(path.read_text())["tests"]
        return tests

    def __call__(self, *args: str, order: str = "") -> dict[str, Any]:
        return {test["nodeid"]: record(test) for test in self.report(*args, order=order)}


def record(test: dict[str, Any]) -> dict[str, Any]:
    """What must not depend on the order: everything that was observed in the window."""
    keys = ("layers", "graphs", "recompiles", "frames", "breaks", "eager", "recompile_list")
    kept: dict[str, Any] = timeless({key: test[key] for key in keys})
    kept["graph_list"] = [
        (graph["layer"], graph["name"], graph["cause"], graph["where"], graph["ops"])
        for graph in test["graph_list"]
    ]
    kept["errors"] = test["errors"]
    return kept


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The suite in its own order, in a real new process, with counts that are known."""
    found = Runs(tmp_path_factory.mktemp("reference"))()
    dynamo = {
        nodeid.split("::", 1)[1]: (seen["graphs"].get("dynamo", 0), len(seen["breaks"]))
        for nodeid, seen in found.items()
    }
    expected = {
        "test_break": (2, 1),
        "test_break_again": (2, 1),
        "test_sizes[3]": (1, 0),
        "test_sizes[7]": (1, 0),
        "test_sizes[9]": (1, 0),
        # torch_xla turns automatic dynamic shapes off, so there each size is a graph.
        "test_many_sizes": (3 if HAS_XLA else 2, 0),
        "test_local_function[1]": (1, 0),
        "test_local_function[2]": (1, 0),
        "test_local_function[3]": (1, 0),
        "test_model": (1, 0),
        "test_model_again": (1, 0),
        "test_thread": (2, 1),
        "test_recompile_limit": (8, 0),
        "test_backward": (2, 1),
        "test_nothing": (0, 0),
        "TestClass::test_method": (2, 1),
    }
    if THREADS_CRASH:
        del expected["test_thread"]
    assert {name: dynamo[name] for name in expected} == expected
    if HAS_XLA:
        xla = {n.split("::", 1)[1]: seen["graphs"].get("xla", 0) for n, seen in found.items()}
        expected_xla = {
            "test_lazy": 1,
            "test_lazy_again": 1,
            "test_item": 1,
            "test_openxla": 1,
            "test_openxla_again": 1,
            "test_leaves_work_pending": 0,
            "test_xla_backward": 1,
        }
        assert {name: xla[name] for name in expected_xla} == expected_xla
    assert not any(seen["errors"] for seen in found.values())
    return found


needs_forked = pytest.mark.skipif(
    not importlib.util.find_spec("pytest_forked"), reason="pytest-forked is not installed"
)
SEED = str(random.Random(20).randrange(1, 10**6))


@pytest.mark.usefixtures("xla_forks")
@pytest.mark.parametrize(
    ("args", "order"),
    [
        pytest.param((), "reverse", id="reverse", marks=pytest.mark.nightly),
        pytest.param(("-n2",), SEED, id="xdist", marks=[pytest.mark.once, pytest.mark.nightly]),
        pytest.param(("--forked", "-n2"), "reverse", id="forked xdist", marks=needs_forked),
    ],
)
def test_in_any_order_and_in_any_process(
    runs: Runs, reference: dict[str, Any], args: tuple[str, ...], order: str
) -> None:
    assert runs(*args, order=order) == reference


@pytest.mark.skipif(not HAS_XLA, reason="torch_xla is not installed")
@pytest.mark.usefixtures("xla_forks")
def test_after_a_test_that_left_work_pending_first_of_all(
    runs: Runs, reference: dict[str, Any]
) -> None:
    """What is flushed then is the first compilation of the process, and nobody's."""
    tests = ["test_suite.py::test_leaves_work_pending", "test_suite.py::test_xla_backward"]
    assert runs(*tests) == {name: reference[name] for name in tests}


INDUCTOR = """
import torch

def step(x):
    return torch.sin(x).sum()

def compiled(function, mode=None):
    return torch.compile(function, mode=mode, dynamic=False)

def test_backward(): compiled(step)(torch.ones(3, requires_grad=True)).backward()

def test_skip(): compiled(step, "reduce-overhead")(torch.ones(3))

def test_recompile():
    run = compiled(step)
    run(torch.ones(3))
    run(torch.ones(4))

def test_fallback(): compiled(lambda x: torch.histc(x, 4) + 1)(torch.ones(8))
"""


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs g++ on a CPU")
@pytest.mark.usefixtures("xla_forks")
def test_what_inductor_makes(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(runs.path / "inductor"))
    runs.write(INDUCTOR)
    whole = runs()
    assert [seen["graphs"]["inductor"] for seen in whole.values()] == [2, 1, 2, 1]
    ways: list[tuple[tuple[str, ...], str]] = [((), str(number)) for number in range(1, 6)]
    ways.append((("-n2",), ""))
    for args, order in ways:
        with subtests.test(" ".join(args), order=order):
            assert runs(*args, order=order) == whole


CAPTURED = """
import torch

def linear():
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))

def test_any_size():
    step = torch.compile(linear(), backend="aot_eager", dynamic=True)
    for size in (2, 3):
        step(torch.ones(size, 4)).sum().backward()

def test_compiled_autograd():
    net = linear()

    def train(x):
        loss = net(x).sum()
        loss.backward()
        return [one for one in (loss,)]

    with torch._dynamo.config.patch(compiled_autograd=True):
        step = torch.compile(train, backend="aot_eager")
        step(torch.ones(3, 4))
        step(torch.ones(5, 4))
"""


@pytest.mark.nightly
@pytest.mark.usefixtures("xla_forks")
def test_what_torch_calls_while_it_captures_a_backward_pass_is_nobodys(runs: Runs) -> None:
    """Dynamo's hook is in then: it comes to the generators of sympy, if sympy has no answer yet."""
    runs.write(CAPTURED)

    def seen(*args: str, order: str = "") -> dict[str, Any]:
        found = runs(*args, order=order)["test_suite.py::test_compiled_autograd"]
        del found["graph_list"]  # Dynamo numbers the frames that are nobody's, too
        return found

    whole = seen()
    assert (whole["eager"], len(whole["breaks"])) == ([], 1)
    assert seen(order="reverse") == whole
    assert seen("test_suite.py::test_compiled_autograd") == whole


@pytest.mark.once
@pytest.mark.usefixtures("xla_forks")
def test_a_rerun_counts_as_the_first_attempt_did(runs: Runs) -> None:
    runs.write(
        SUITE
        + """
attempts = []
def test_flaky():
    compiled(torch.ones(3))
    attempts.append(1)
    assert len(attempts) == 2
"""
    )
    (test,) = runs.report("--reruns=1", "-k", "flaky")
    assert (test["attempts"], test["outcome"], test["graphs"]) == (2, "passed", {"dynamo": 2})
