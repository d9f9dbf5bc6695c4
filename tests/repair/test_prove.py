"""``graphbreak prove``: patches that others wrote, right ones and wrong ones.

``test_inputs`` shows which inputs are drawn, ``test_compare`` when two values differ.
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Final

import pytest

from pytest_graphbreak.model.record import Record
from pytest_graphbreak.repair.original import Comparison
from pytest_graphbreak.repair.prove import BETTER, DIFFERS, EQUAL, UNJUDGED, Proof, prove
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench, Trial
from tests.examples import sample
from tests.repair.conftest import Shop

pytestmark = pytest.mark.once

BRANCH: Final = """
import torch

def f(x):
    y = x * 2
    if y.sum() > 0:
        y = y + 1
    else:
        y = y - 1
    return y * 3

f = torch.compile(f, backend="eager")
f(torch.arange(1.0, 7.0).reshape(2, 3))
"""
IF: Final = "    if y.sum() > 0:\n        y = y + 1\n    else:\n        y = y - 1\n"

MODEL: Final = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.register_buffer("seen", torch.zeros(()))
        self.calls = 0

    def forward(self, x):
        h = self.a(x)
        self.seen += 1
        print("mean", round(float(h.mean()), 3))
        return torch.relu(h)

torch.manual_seed(0)
plain = Model()
model = torch.compile(plain, backend="eager")
for _ in range(2):
    loss = model(torch.randn(3, 4)).square().sum()
    loss.backward()
"""
PRINT: Final = '        print("mean", round(float(h.mean()), 3))\n        return torch.relu(h)\n'

SIZES: Final = """
import torch

def f(x, sizes=0):
    return (x * x.shape[0]).cumsum(0)

f = torch.compile(f, backend="eager", dynamic=False)
for size in (3, 4, 5):
    f(torch.arange(size * 2.0).reshape(size, 2))
"""

MASK: Final = """
import torch

def f(x, scale):
    x = x.clone()
    kept = x[x > 0]
    x.mul_(scale)
    return x / torch.tensor(kept.numel() if kept.numel() else 1, dtype=x.dtype)

f = torch.compile(f, backend="eager")
f(torch.tensor([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]]), 0.5)
"""
MASKED: Final = "kept.numel() if kept.numel() else 1, dtype=x.dtype)"

PLACE: Final = """
import logging
import torch

log = logging.getLogger("training")
history = []

def f(x, state):
    state.add_(x.mean())
    if torch.isnan(x).any():
        x = torch.nan_to_num(x)
    history.append(len(history))
    log.warning("called")
    return x.tanh() + state

f = torch.compile(f, backend="eager")
f(torch.arange(4.0), torch.zeros(1))
"""


def edited(source: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert old in source
        source = source.replace(old, new)
    return source


WHERE: Final = "    y = torch.where(y.sum() > 0, y + 1, y - 1)\n"
CHECK: Final = "    if torch.isnan(x).any():\n        x = torch.nan_to_num(x)\n"
LATER: Final = (
    ('    history.append(len(history))\n    log.warning("called")\n', ""),
    (
        'f = torch.compile(f, backend="eager")\n',
        'compiled = torch.compile(f, backend="eager")\n\n'
        "def f(x, state):\n"
        "    out = compiled(x, state)\n"
        "    history.append(len(history))\n"
        '    log.warning("called")\n'
        "    return out\n\n",
    ),
)
PRINTS_LATER: Final = (
    (PRINT, "        return torch.relu(h), h.mean().detach()\n"),
    (
        'model = torch.compile(plain, backend="eager")\n',
        'compiled = torch.compile(plain, backend="eager")\n\n'
        "def model(x):\n"
        "    out, mean = compiled(x)\n"
        '    print("mean", round(float(mean), 3))\n'
        "    return out\n\n",
    ),
)

RIGHT: Final = {
    "a branch as torch.where": edited(BRANCH, (IF, WHERE)),
    "sizes that vary": SIZES.replace("dynamic=False", "dynamic=True"),
    "no print, and it prints later": edited(MODEL, *PRINTS_LATER),
    "a check for NaN as torch.where": edited(
        PLACE,
        (CHECK, "    x = torch.where(torch.isnan(x).any(), torch.nan_to_num(x), x)\n"),
        *LATER,
    ),
    "a setting": edited(
        MASK,
        (
            "def f(",
            "torch._dynamo.config.capture_dynamic_output_shape_ops = True\n"
            "torch._dynamo.config.capture_scalar_outputs = True\n\ndef f(",
        ),
        (MASKED, "1, dtype=x.dtype)"),
        (
            "x / torch.tensor(1, dtype=x.dtype)",
            "x / torch.clamp((kept == kept).sum(), min=1).to(x.dtype)",
        ),
    ),
}

WRONG: Final = {
    "a gradient": (
        edited(BRANCH, (IF, WHERE.replace("y + 1", "y.detach() + 1"))),
        "gradients",
    ),
    "a batch that is baked in": (
        edited(BRANCH, (IF, WHERE), ("return y * 3", "return (y * 3).reshape(2, -1)")),
        "batch",
    ),
    "a printed line": (edited(MODEL, (PRINT, "        return torch.relu(h)\n")), "prints"),
    "a change in place": (
        edited(
            PLACE,
            (CHECK, "    x = torch.nan_to_num(x)\n"),
            ("state.add_(x.mean())", "state = state + x.mean()"),
            *LATER,
        ),
        "",
    ),
    "a buffer that is not counted": (
        edited(MODEL, ("        self.seen += 1\n", ""), *PRINTS_LATER),
        "",
    ),
    "a logged line": (
        edited(
            PLACE,
            (CHECK, "    x = torch.nan_to_num(x)\n"),
            LATER[0],
            (LATER[1][0], LATER[1][1].replace('    log.warning("called")\n', "")),
        ),
        "called",
    ),
    "a list that no longer grows": (
        edited(
            PLACE,
            (CHECK, "    x = torch.nan_to_num(x)\n"),
            LATER[0],
            (LATER[1][0], LATER[1][1].replace("    history.append(len(history))\n", "")),
        ),
        "history",
    ),
}


RIGHT_ON_PUSH: Final = (
    "a branch as torch.where",
    "sizes that vary",
    "no print, and it prints later",
)
WRONG_ON_PUSH: Final = ("a gradient", "a printed line", "a change in place")


def original_of(patched: str) -> str:
    """The program that a patch belongs to: the one that defines the same things."""
    if "class Model" in patched:
        return MODEL
    if "sizes" in patched:
        return SIZES
    return PLACE if "history" in patched else MASK if "scale" in patched else BRANCH


def proved(patched: str, path: Path, bench: Bench) -> Proof:
    targets = []
    for name, text in (("a.py", original_of(patched)), ("b.py", patched)):
        (path / name).write_text(text)
        targets.append(Target(path / name))
    return prove(bench, *targets)


@pytest.mark.parametrize("name", sample(RIGHT, RIGHT_ON_PUSH))
def test_a_right_patch_is_proved(name: str, tmp_path: Path, shared: Bench) -> None:
    proof = proved(RIGHT[name], tmp_path, shared)
    assert (proof.verdict, proof.why) == (BETTER, "")
    assert len(proof.comparison.kinds) >= 6


@pytest.mark.parametrize("name", sample(WRONG, WRONG_ON_PUSH))
def test_a_wrong_patch_is_not(name: str, tmp_path: Path, shared: Bench) -> None:
    patched, words = WRONG[name]
    proof = proved(patched, tmp_path, shared)
    assert proof.verdict == DIFFERS
    assert words in proof.why


def test_what_is_as_it_was_is_no_proof(shop: Shop) -> None:
    shop.write("a.py", BRANCH)
    shop.write("b.py", BRANCH + "# the same\n")
    said = shop.run("prove", "a.py", "b.py", "--json", "proof.json")
    assert (said.code, said.err.count("Traceback")) == (1, 0)
    assert "equal, but not better: the graphs did not get fewer" in said.out
    data = json.loads((shop.path / "proof.json").read_text())
    assert data["verdict"] == EQUAL
    assert data["before"]["graphs"] == data["after"]["graphs"] == {"dynamo": 2}


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import torch\nprint(1)\n", "the original compiles nothing"),
        ("import torch\nraise KeyError(1)\n", "the original does not run: KeyError: 1"),
        (
            BRANCH.replace("x * 2", "x * torch.rand(1, generator=g)").replace(
                "def f", "g = torch.Generator()\ng.seed()\n\ndef f"
            ),
            "the original differs from run to run",
        ),
    ],
)
def test_what_cannot_be_judged(source: str, words: str, shop: Shop) -> None:
    shop.write("a.py", source)
    shop.write("b.py", BRANCH)
    said = shop.run("prove", "a.py", "b.py")
    assert said.code == 2
    assert f"{UNJUDGED}: {words}" in said.out


def test_it_is_said_what_was_compared_and_what_was_not() -> None:
    trial = Trial(Record(), endless=["negated", "negated, with gradients"])
    said = Proof(trial, trial, Comparison(inputs=3, kinds=["zero"], raised=1)).equal()
    assert said == (
        "outputs, gradients, changes in place and lines: 2 calls of the program, "
        "1 call with drawn inputs, 1 more raised in both, 2 did not end without the compiler"
    )


def test_a_module_is_proved_with_the_program_that_imports_it(shop: Shop) -> None:
    shop.write("branch.py", BRANCH.partition("f = torch")[0])
    shop.write("branch_fixed.py", edited(BRANCH.partition("f = torch")[0], (IF, WHERE)))
    shop.write(
        "test_it.py",
        """
        import torch
        from branch import f

        def test_it():
            torch.compile(f, backend="eager")(torch.arange(6.0).reshape(2, 3))
        """,
    )
    said = shop.succeed("prove", "branch.py", "branch_fixed.py", "--run", "test_it.py::test_it")
    assert "better and equal" in said.out


def test_a_test_is_proved_by_its_name(shop: Shop) -> None:
    test = textwrap.dedent(
        """
        def test_it():
            f(torch.arange(6.0).reshape(2, 3))
        """
    )
    source = BRANCH.rpartition("f(torch")[0]
    shop.write("test_a.py", source + test)
    shop.write("test_b.py", edited(source, (IF, WHERE)) + test)
    said = shop.succeed("prove", "test_a.py::test_it", "test_b.py")
    assert "drawn: the first inputs again, negated, random" in said.out


EAGER: Final = """
import torch

def f(x):
    for i in range(2):
        x = x * 2
        print("round")
    return x

f = torch.compile(f, backend="eager")
f(torch.ones(3))
"""


def test_code_that_ran_uncompiled_and_is_compiled_is_better(tmp_path: Path, shared: Bench) -> None:
    """There is no graph before: a break in a loop leaves the whole function to Python."""
    head = "torch._dynamo.config.reorderable_logging_functions.add(print)"
    (tmp_path / "a.py").write_text(EAGER)
    (tmp_path / "b.py").write_text(EAGER.replace("import torch\n", f"import torch\n{head}\n"))
    proof = prove(shared, Target(tmp_path / "a.py"), Target(tmp_path / "b.py"))
    assert (proof.before.record.graphs, proof.after.record.graphs) == ({}, {"dynamo": 1})
    assert (proof.verdict, proof.why) == (BETTER, "")
