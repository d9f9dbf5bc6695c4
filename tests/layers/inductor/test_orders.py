"""What inductor makes in a test depends neither on the order of tests nor on their process."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path

import pytest

from tests.conftest import Suite

pytest.importorskip("torch")
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs g++ on a CPU"),
]

CONFTEST = """
import random


def pytest_generate_tests(metafunc):
    metafunc.parametrize("order", range(20))


def pytest_collection_modifyitems(items):
    numbers = [random.Random(n) for n in range(20)]
    items.sort(key=lambda item: (n := item.callspec.params["order"], numbers[n].random()))
"""
CASES = """
import torch


def step(x):
    return torch.sin(x).sum()


def broken(x):
    y = torch.cos(x)
    print(end="")
    return y * 2


def compiled(function, mode=None):
    return torch.compile(function, mode=mode, dynamic=False)


def test_backward(order):
    compiled(step)(torch.ones(3, requires_grad=True)).backward()


def test_inference(order):
    with torch.no_grad():
        compiled(step)(torch.ones(3))


def test_skip(order):
    compiled(step, "reduce-overhead")(torch.ones(3))


def test_recompile(order):
    run = compiled(step)
    run(torch.ones(3))
    run(torch.ones(4))


def test_break(order):
    compiled(broken)(torch.ones(3))


def test_fallback(order):
    compiled(lambda x: torch.histc(x, 4) + 1)(torch.ones(8))
"""


@pytest.mark.parametrize("how", ["one process", "xdist", "forked"])
def test_twenty_orders(
    how: str, suite: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = {"xdist": "xdist", "forked": "pytest_forked"}.get(how, "pytest")
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    suite.pytester.makeconftest(CONFTEST)
    suite.write(CASES)
    options = {"xdist": ("-n", "2"), "forked": ("--forked",)}.get(how, ())
    done = suite.pytester.runpytest_subprocess(
        "-p", "no:cacheprovider", "--graph-budget-report=graphs.json", *options
    )
    done.assert_outcomes(passed=120)
    counts: dict[str, set[str]] = {}
    for test in json.loads((suite.path / "graphs.json").read_text())["tests"]:
        causes = [graph["cause"] for graph in test["graph_list"] if graph["layer"] == "inductor"]
        left = [entry["reason"] for entry in test["eager"]]
        numbers = [test["graphs"], test["recompiles"], test["ops"], sorted(causes), left]
        name = test["nodeid"].partition("[")[0].partition("::")[2]
        counts.setdefault(name, set()).add(json.dumps(numbers, sort_keys=True))
    assert {name: len(found) for name, found in counts.items()} == dict.fromkeys(counts, 1)
    assert len(counts) == 6
