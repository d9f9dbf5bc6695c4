"""``graphbreak prove``: patches that others wrote, right ones and wrong ones (``pairs``).

``test_inputs`` shows which inputs are drawn, ``test_tolerance`` when two values differ.
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Final

import pytest

from pytest_graphbreak.model.record import Record
from pytest_graphbreak.repair.comparison import Comparison
from pytest_graphbreak.repair.prove import DIFFERS, NOT_BETTER, PROVED, Proof, prove
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Bench, Trial
from tests.examples import sample
from tests.repair.conftest import Shop
from tests.repair.pairs import (
    BRANCH,
    IF,
    RIGHT,
    SETTING,
    UNSTEADY,
    WHERE,
    WRONG,
    Edits,
    edited,
)

pytestmark = pytest.mark.once

RIGHT_ON_PUSH: Final = (
    "a function around the call that prints",
    "a counter as a buffer",
    "objects, files and logs",
)
WRONG_ON_PUSH: Final = (
    "a weight without a gradient in a closure",
    "a private attribute that is gone",
    "one result more, and the first is wrong",
)


def proved(
    source: str, edits: Edits, path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> Proof:
    targets = []
    for name, text in (("a.py", source), ("b.py", edited(source, edits))):
        (path / name).write_text(text)
        targets.append(Target(path / name))
    monkeypatch.chdir(path)
    proof = prove(bench, *targets)
    assert {file.name for file in path.iterdir()} == {"a.py", "b.py"}  # others are put back
    return proof


@pytest.mark.parametrize("name", sample(RIGHT, RIGHT_ON_PUSH))
def test_a_right_patch_is_proved(
    name: str, tmp_path: Path, shared: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    proof = proved(*RIGHT[name], tmp_path, shared, monkeypatch)
    assert (proof.verdict, proof.why) == (PROVED, "")


@pytest.mark.parametrize("name", sample(WRONG, WRONG_ON_PUSH))
def test_a_wrong_patch_is_not(
    name: str, tmp_path: Path, shared: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, edits, words = WRONG[name]
    proof = proved(source, edits, tmp_path, shared, monkeypatch)
    assert proof.verdict == DIFFERS
    assert words in proof.why


def test_a_patch_that_is_better_for_three_steps_only_is_not(
    tmp_path: Path, shared: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list is a guard: the function is compiled again with each step, up to the limit."""
    proof = proved(UNSTEADY, SETTING, tmp_path, shared, monkeypatch)
    assert proof.comparison.difference is None
    assert proof.verdict == NOT_BETTER
    assert proof.why == "1 function at the recompile limit if the program runs four times as long"


def test_what_is_as_it_was_is_no_proof(shop: Shop) -> None:
    shop.write("a.py", BRANCH)
    shop.write("b.py", BRANCH + "# the same\n")
    said = shop.run("prove", "a.py", "b.py", "--json", "proof.json")
    assert (said.code, said.err.count("Traceback")) == (1, 0)
    assert "not better: neither graphs nor breaks got fewer (2 -> 2, 1 -> 1)" in said.out
    data = json.loads((shop.path / "proof.json").read_text())
    assert data["verdict"] == NOT_BETTER
    assert data["before"]["graphs"] == data["after"]["graphs"] == {"dynamo": 2}
    assert data["difference"] is None
    assert "devices other than cpu" in data["not_compared"]


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
    assert (said.code, said.out) == (2, "")
    assert f"graphbreak prove: {words}" in said.err


def test_it_is_said_what_was_compared_and_what_was_not() -> None:
    trial = Trial(Record(), endless=["negated"])
    comparison = Comparison(drawn=["zero", "NaN"], left_out=["lines of stdout"])
    assert Proof(trial, trial, comparison).compared() == (
        "1 program, 2 drawn calls; not compared: lines of stdout, 1 drawn call that does not end, "
        "files of native code and other processes, devices other than cpu"
    )
    changed = Comparison(changed="f is called 2 times in place of 3", by_program=True)
    assert (
        Proof(trial, trial, changed)
        .compared()
        .startswith(
            "1 program; not compared: the results of calls (f is called 2 times in place of 3; "
            "the program decides)"
        )
    )


def test_a_module_is_proved_with_the_program_that_imports_it(shop: Shop) -> None:
    shop.write("branch.py", BRANCH.partition("c = torch")[0])
    shop.write("branch_fixed.py", edited(BRANCH.partition("c = torch")[0], ((IF, WHERE),)))
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
    assert "proved: 1 program, " in said.out


def test_a_test_is_proved_by_its_name(shop: Shop) -> None:
    test = textwrap.dedent(
        """
        def test_it():
            c(torch.arange(6.0).reshape(2, 3))
        """
    )
    source = BRANCH.rpartition("c(torch")[0]
    shop.write("test_a.py", source + test)
    shop.write("test_b.py", edited(source, ((IF, WHERE),)) + test)
    said = shop.succeed("prove", "test_a.py::test_it", "test_b.py")
    assert "drawn: the first inputs again, negated, random" in " ".join(said.out.split())


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
    assert (proof.verdict, proof.why) == (PROVED, "")
