"""A ``graph_budget`` block that fails its test carries its verdict to every form of report."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.forkserver import Server

pytestmark = pytest.mark.once

SUITE = """
import pytest
import torch
from pytest_graphbreak import observe


def step(size):
    return torch.compile(torch.sin, backend="eager", dynamic=False)(torch.ones(size))


def test_plain():
    step(2)


def test_block(graph_budget):
    step(2)
    with graph_budget(max_graphs=0):
        step(3)


def test_steps(graph_budget):
    model = torch.compile(torch.cos, backend="eager", dynamic=False)
    with graph_budget.steps(warm=1) as steps:
        for size in (2, 3):
            with steps.step():
                model(torch.ones(size))


def test_fewer(graph_budget):
    model = torch.compile(torch.cos, backend="eager", dynamic=False)
    with graph_budget.steps(warm=1) as steps:
        for calls in (1, 2, 1):
            with steps.step():
                for _ in range(calls):
                    model(torch.ones(2))


@pytest.fixture
def warm():
    with observe(max_graphs=0):
        step(2)


def test_fixture(warm):
    pass


@pytest.mark.xfail
def test_expected(graph_budget):
    with graph_budget(max_graphs=0):
        step(3)


def test_caught(graph_budget):
    with pytest.raises(AssertionError):
        with graph_budget(max_graphs=0):
            step(3)


def test_itself():
    step(2)
    raise AssertionError("its own")
"""


@pytest.fixture(scope="module", autouse=True)
def _forks(server_of_forks: Server) -> Iterator[None]:
    """Each new Python is a fork of one that has imported torch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", server_of_forks.python)
        yield


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory, _forks: None) -> Path:
    """Return a directory in which the suite ran once with a report, ``b.json``."""
    directory = tmp_path_factory.mktemp("blocks")
    (directory / "pytest.ini").write_text("[pytest]\n")
    (directory / "test_blocks.py").write_text(SUITE)
    run(directory, "pytest", "-q", "--graph-budget-report=b.json")
    return directory


def run(directory: Path, module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(
        command, cwd=directory, capture_output=True, text=True, timeout=300, check=False
    )


def reported(suite: Path) -> dict[str, dict[str, Any]]:
    data = json.loads((suite / "b.json").read_text())
    return {test["nodeid"].partition("::")[2]: test for test in data["tests"]}


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("test_block", "over"),
        ("test_steps", "over"),
        ("test_fewer", "lost"),
        ("test_fixture", "over"),
    ],
)
def test_json(suite: Path, name: str, verdict: str) -> None:
    """Its counts, budget and changes are those of the block."""
    test = reported(suite)[name]
    assert (test["verdict"], test["failed_by"], test["block"]) == (verdict, "gate", True)
    assert test["outcome"] == "failed"
    assert "graph budget: " in test["message"]
    assert test["changes"]
    if name == "test_block":
        assert (test["graphs"], test["budget"]) == ({"dynamo": 1}, {"graphs": {"dynamo": 0}})


@pytest.mark.parametrize("name", ["test_plain", "test_expected", "test_caught", "test_itself"])
def test_others(suite: Path, name: str) -> None:
    test = reported(suite)[name]
    assert (test["verdict"], test["block"]) == ("none", False)


def test_check(suite: Path) -> None:
    result = run(suite, "pytest_graphbreak", "check", "b.json", "--markdown", "c.md")
    assert result.returncode == 1
    assert "over       test_blocks.py::test_block   dynamo 0 -> 1" in result.stdout
    assert "Over the graph budget." in result.stdout
    assert "1 test failed without the gate" in result.stdout
    title = "Graph budget: 3 tests are over their graph budget, 1 test lost compiled code"
    assert title in (suite / "c.md").read_text()


def test_limits(suite: Path) -> None:
    """What stands in a test cannot be accepted."""
    names = (f"test_blocks.py::{name}" for name in ("test_block", "test_steps"))
    run(suite, "pytest", "-q", *names, "--graph-budget-report=limits.json")
    result = run(suite, "pytest_graphbreak", "check", "limits.json", "--markdown", "limits.md")
    assert " Fix the code, or raise the limits of the blocks.\n" in result.stdout
    assert "accept" not in (suite / "limits.md").read_text().lower()


def test_accept(suite: Path) -> None:
    """What a block counted is not the count of its test."""
    run(suite, "pytest_graphbreak", "accept", "b.json", "--yes")
    written = (suite / "baselines" / "test_blocks.yaml").read_text()
    assert "test_plain" in written
    assert "test_block:" not in written
    assert "test_steps" not in written


def test_workers(suite: Path) -> None:
    pytest.importorskip("xdist")
    run(suite, "pytest", "-q", "-n2", "--graph-budget-report=b2.json")
    data = json.loads((suite / "b2.json").read_text())
    assert sum(test["block"] for test in data["tests"]) == 4
