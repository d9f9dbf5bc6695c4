"""Repairs of programs that compute with torch_xla: on the device and backend of the original."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_graphbreak.cli import program
from tests.repair.conftest import Shop

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch_xla") is None, reason="torch_xla is not installed"
)


@pytest.fixture
def shop(xla_shop: Shop) -> Shop:
    return xla_shop


LENGTHS = """
    import torch
    import torch_xla

    device = torch_xla.device()
    torch.manual_seed(0)
    model = torch.compile(torch.nn.Linear(8, 4).to(device), backend="openxla")
    with torch.no_grad():
        for size in (3, 5, 6, 8):
            y = model(torch.randn(size, 8).to(device))
            torch_xla.sync()
"""


def test_of_sizes_the_graphs_of_the_device_are_compared_too(shop: Shop) -> None:
    """Dynamo makes one graph for all, of which torch_xla compiles each size."""
    shop.write("a.py", LENGTHS)
    said = shop.succeed("dynamic", "a.py")
    title, *ways, _, take = said.out.splitlines()
    assert title.split()[:4] == ["graphs", "xla", "graphs", "recompiles"]
    assert [line.split()[1:4] for line in ways] == [["4", "4", "3"]] * 2 + [["1", "4", "0"]] * 2
    assert take.startswith("take dynamic=False, and pad to one size or a few: xla compiles each")


CLIPS = """
    import torch
    import torch_xla
    from torch import nn

    torch.manual_seed(0)
    model = nn.Linear(4, 4).to("xla")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


    @torch.compile(backend="openxla")
    def clip(grads, limit):
        norm = torch.stack([grad.norm() for grad in grads]).norm()
        if norm > limit:
            grads = [grad * (limit / norm) for grad in grads]
        return grads


    for _ in range(4):
        optimizer.zero_grad()
        model(torch.randn(8, 4, device="xla")).pow(2).sum().backward()
        grads = clip([p.grad for p in model.parameters()], 1.0)
        for parameter, grad in zip(model.parameters(), grads):
            parameter.grad = grad
        optimizer.step()
        torch_xla.sync()
"""


def test_what_is_recorded_of_a_program_makes_no_graph(shop: Shop) -> None:
    """A result that is held until the next step is a result of that step, and compiles it again."""
    target = shop.write("a.py", CLIPS)
    with program.bench(600) as trials:
        trial = trials.measure(target, outputs=False)
    assert trial.error is None
    assert trial.record.graphs["xla"] == 5  # as ``graphbreak run`` says


LAZY = """
    import torch
    import torch_xla

    device = torch_xla.device()
    x = torch.ones(4).to(device)
    diff = torch.ones(4).to(device)
    while diff.max() > 0.07:
        y = x * 0.9
        diff = x - y
        x = y
"""


def test_of_a_lazy_loop_it_is_said_what_to_do_by_hand(shop: Shop) -> None:
    """There is nothing that is compiled, and so no remedy: no reason to say that all is well."""
    shop.write("a.py", LAZY)
    said = shop.run("fix", "a.py")
    assert said.code == 1
    lines = said.out.splitlines()
    assert lines[-1].endswith(" prove a.py a_patched.py")
    assert lines[0] == "No remedy for a program of 6 graphs, where torch.compile makes none:"
    where = lines.index("    access   value read by `while`") + 1  # the most frequent comes first
    assert lines[where : where + 2] == [
        "      a.py:8 in <module>",
        "          while diff.max() > 0.07:",
    ]
    assert "<string>" not in said.out  # no line of ours


MODEL = """
    import torch
    import torch_xla

    class Inner(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(8, 8)

        def forward(self, x):
            print("inner")
            return self.a(x)

    def main():
        device = torch_xla.device()
        model = torch.nn.Sequential(torch.nn.ReLU(), Inner()).to(device)
        with torch.no_grad():
            torch.compile(model, backend="openxla")(torch.randn(4, 8).to(device))
        torch_xla.sync()

    main()
"""


def test_a_model_is_loaded_on_the_device_and_large_inputs_are_moved_there(shop: Shop) -> None:
    shop.write("a.py", MODEL)
    said = shop.succeed("repro", "a.py", "--out", "here")
    assert "1 of Sequential by its path" in said.out
    text = (shop.path / "here/a_repro_1.py").read_text()
    assert "set_device_type" not in text  # not TT
    body = text.partition("def main():")[2]
    order = ("manual_seed(0)", "load_the_original", "get_submodule", "torch.load")
    order += ('torch.compile(model, backend="openxla")', "compiled(", "torch_xla.sync()")
    places = [body.index(part) for part in order]
    assert places == sorted(places)


# ``graphbreak repro`` of a lazy program: its scripts count what torch_xla cut, without us.

STEPS = """
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
    shop.write("a.py", STEPS)
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
    shop.write("a.py", STEPS.replace("if y.sum().item() > 0:", "if True:"))
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
    shop.write("a.py", STEPS.replace("if y.sum().item() > 0:", "if True:").replace("3, 4, 2", "2"))
    said = shop.run("repro", "a.py")
    assert (said.code, said.out) == (
        0,
        "No graph break came, and torch_xla cut no graph: there is nothing to reproduce.\n",
    )
    assert not Path("repros").exists()
