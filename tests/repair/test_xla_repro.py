"""``graphbreak repro`` of a lazy program: its scripts count what torch_xla cut, without us."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repair.conftest import Shop

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch_xla") is None, reason="torch_xla is not installed"
)


@pytest.fixture
def shop(xla_shop: Shop) -> Shop:
    return xla_shop


LAZY = """
    import torch
    import torch_xla


    def step(x, w):
        y = x @ w
        if y.sum().item() > 0:
            y = y * 2
        torch_xla.sync()
        return y


    def main():
        device = torch_xla.device()
        w = torch.ones(4, 4).to(device)
        for n in (2, 3, 4, 2):
            step(torch.ones(n, 4).to(device), w)


    main()
"""


def alone(*command: str) -> tuple[int, list[str]]:
    """The exit code and the lines of a Python that cannot import this package."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, env=environment
    )
    return done.returncode, (done.stdout + done.stderr).splitlines()


def test_each_sync_access_and_recompile_has_a_script_that_fails_without_us(shop: Shop) -> None:
    shop.write("a.py", LAZY)
    said = shop.succeed("repro", "a.py")
    assert "3 of 3 cuts reproduced in repros" in said.out
    reasons = ("access: value read by .item(), 3 graphs", "sync: explicit sync, 1 graph")
    lines, counts = ("a.py:8", "a.py:10", "a.py:10"), (3, 3, 3)
    scripts = [shop.path / f"repros/a_repro_{number}.py" for number in (1, 2, 3)]
    for script, reason in zip(scripts, (*reasons, "recompile: "), strict=True):
        assert f"# {reason}" in script.read_text()
        assert "pytest_graphbreak" not in script.read_text()
    for script, line, count in zip(scripts, lines, counts, strict=True):
        words = f"AssertionError: graphs that end at {line}: {count}, by CompileTime of torch_xla"
        code, output = alone(str(script))
        assert (code, output[-1]) == (1, words)
    shop.write("a.py", LAZY.replace("if y.sum().item() > 0:", "if True:"))
    assert alone(str(scripts[0]))[0] == 0


TEST = """
    import torch
    import torch_xla


    def test_it():
        x = torch.ones(4).to(torch_xla.device())
        assert (x + 1).sum().item() == 8
        assert (x + 2).sum().item() == 12
"""


def test_of_a_test_the_scripts_are_tests(shop: Shop) -> None:
    shop.write("test_a.py", TEST)
    said = shop.succeed("repro", "test_a.py::test_it", "--as-test", "--out", "tests")
    assert "2 of 2 cuts reproduced in tests" in said.out
    (shop.path / "pytest.ini").write_text("[pytest]\n")
    command = ("-m", "pytest", "-q", "-p", "no:graphbreak", "-p", "no:cacheprovider", "tests")
    code, output = alone(*command)
    assert (code, output[-1].split(" in ")[0]) == (1, "2 failed")
    assert "graphs that end at test_a.py:8: 1, by CompileTime of torch_xla" in "\n".join(output)


def test_a_lazy_program_of_one_graph_has_nothing_to_reproduce(shop: Shop) -> None:
    shop.write("a.py", LAZY.replace("if y.sum().item() > 0:", "if True:").replace("3, 4, 2", "2"))
    said = shop.run("repro", "a.py")
    assert (said.code, said.out) == (
        0,
        "No graph break came, and torch_xla cut no graph: there is nothing to reproduce.\n",
    )
    assert not Path("repros").exists()
