"""Tensors of the host that are moved to the device give what they gave on the host."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_graphbreak.repair.remedies.programs import program
from tests.repair.test_sound import LISTS, bits, loaded

xla = pytest.importorskip("torch_xla")

STEPS = {
    "reads": "return x * held + y",
    "writes into what it holds": "held.add_(1)\nreturn x * held + y",
    "writes into an argument": "y.mul_(2)\nreturn x * held + y",
    "writes through a view": "held.view(-1)[0] = 5\nreturn x * held + y",
    "binds what a module holds again": "module.factor = module.factor * 2\n"
    "return x * module.factor + y",
    "writes into a buffer": "module.seen.add_(1)\nreturn module.scale(x) + module.seen + y",
    "reads one tensor twice": "alias.add_(1)\nreturn x * held + alias + y",
}
MODULE = """\
class Module(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(2))
        self.factor = torch.full((2,), 3.0)

    def scale(self, x):
        return x * self.factor


module = Module()
held = torch.ones(2)
alias = held
"""


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    torch._dynamo.reset()
    before = torch.compile
    yield
    torch.compile = before


@pytest.mark.parametrize("name", sorted(STEPS))
def test_what_is_moved_to_the_device_is_the_same_there_and_here(name: str) -> None:
    lines = "".join(f"    {line}\n" for line in STEPS[name].splitlines())
    source = f"{MODULE}\n\ndef f(x, y):\n{lines}"

    @settings(max_examples=5, deadline=None)
    @given(LISTS, LISTS, st.lists(st.sampled_from(["call", "host writes"]), max_size=3))
    def check(values: list[float], more: list[float], between: list[str]) -> None:
        torch._dynamo.reset()
        steps = ["call", *between, "call"]
        plain, patched = loaded(source), loaded(*map(program, ("around", "on_device")), source)
        run = patched["_graphbreak_around"](patched["_graphbreak_on_device"])(
            patched["f"], backend="openxla"
        )
        device = xla.device()
        wanted = _outcome(plain, plain["f"], values, more, steps, torch.device("cpu"))
        assert _outcome(patched, run, values, more, steps, device) == wanted

    check()


def _outcome(
    space: dict[str, Any],
    function: Any,
    values: list[float],
    more: list[float],
    steps: list[str],
    device: Any,
) -> list[Any]:
    """Return the results of all calls, and all that the code holds afterwards."""
    x, y = torch.tensor(values).to(device), torch.tensor(more)
    found = []
    for step in steps:
        if step == "call":
            found.append(bits(function(x, y).cpu()))
        else:
            space["held"].mul_(3)
            space["module"].factor.sub_(1)
    held = (space["held"], space["alias"], space["module"].seen, space["module"].factor, y)
    return [*found, *(bits(one.cpu()) for one in held)]


NOTES = """
lines = []


def writes(y):
    lines.append(y.sum().item())


def part(x):
    y = (x @ weight).tanh()
    _graphbreak_note("writes", [y])
    return x + y


def f(x):
    return part(part(x))
"""


TRAINED = """
import torch_xla

for device, backend in (("cpu", None), (torch_xla.device(), "openxla")):
    lines.clear()
    weight = (torch.arange(6.0).reshape(2, 3).T @ torch.ones(2, 3) / 9).to(device)
    weight.requires_grad_()
    run = f
    if backend:
        run = _graphbreak_flush(f, torch.compile(f, backend=backend, fullgraph=True))
    run(torch.full((4, 3), 0.5).to(device)).sum().backward()
    print(*lines, *weight.grad.cpu().flatten().tolist())
"""


def test_what_is_noted_in_a_graph_that_is_trained_is_what_it_was(tmp_path: Path) -> None:
    """Of a clone torch_xla takes the original.

    In a process of its own: threads of autograd that ran before torch_xla serve no device of it.
    """
    script = tmp_path / "trained.py"
    script.write_text(f"import torch\n\n{program('notes')}\n\n{NOTES}{TRAINED}")
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    plain, noted = ([float(one) for one in line.split()] for line in ended.stdout.splitlines())
    assert len(plain) == 11
    assert plain == pytest.approx(noted)
