"""The table of docs/explanation/counting.md, "Verdicts": each edit, made and judged by real runs.

A verdict follows from counts, so it is the same in a full clone, in one of depth 1 (the default of
actions/checkout) and without git.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.checkout import commit, git
from tests.tables import EDITS, counts_of

pytest.importorskip("torch")

pytestmark = pytest.mark.once

NET: Final = """\
import torch


class Block(torch.nn.Module):
    def forward(self, x):
        return (x.sin() + 1).tanh()


class Net(torch.nn.Module):
    def __init__(self, depth=4):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block() for _ in range(depth))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x.sum()


def test_it():
    net = Net()
    run = torch.compile(net, backend="eager", dynamic=False)
    run(torch.ones(3))
    run(torch.ones(3))
"""
PRINTS: Final = NET.replace(
    "        return x.sum()", '        print("head")\n        return x.sum()'
)
TWO_SIZES: Final = NET.replace("    run(torch.ones(3))\n", "    run(torch.ones(5))\n", 1)
CALL: Final = "    run(torch.ones(3))\n"
COMPILES: Final = 'torch.compile(net, backend="eager", dynamic=False)'

SOME: Final = 4
"""Each fourth edit is judged in all kinds of checkout."""

Edit = tuple[str, tuple[tuple[str, str], ...]]

PROGRAMS: Final[dict[str, Edit]] = {
    "a comment": (NET, (("            x = block(x)", "            x = block(x)  # all"),)),
    "a `print` in `forward`": (
        NET,
        (("        return x.sum()", "        print(x)\n        return x.sum()"),),
    ),
    "an input of another size": (NET, ((CALL * 2, CALL + "    run(torch.ones(5))\n"),)),
    "a second function compiled": (
        NET,
        ((CALL * 2, CALL * 2 + '    torch.compile(torch.cos, backend="eager")(torch.ones(3))\n'),),
    ),
    "an operation more in each layer": (NET, ((".tanh()", ".tanh().abs()"),)),
    "an operation deleted": (NET, (("x.sum()", "x"),)),
    "an operation moved into the test": (
        NET,
        (("x.sum()", "x"), (CALL * 2, "    run(torch.ones(3)).sum()\n" * 2)),
    ),
    "three layers in place of four": (NET, (("depth=4", "depth=3"),)),
    "the first of four layers called before the compiled model": (
        NET,
        (("depth=4", "depth=3"), ("(torch.ones(3))", "(Block()(torch.ones(3)))")),
    ),
    "`torch.compile` removed": (NET, ((COMPILES, "net"),)),
    "`torch.compiler.disable` on `forward`": (
        NET,
        (
            (
                "    def forward(self, x):\n        for",
                "    @torch.compiler.disable\n    def forward(self, x):\n        for",
            ),
        ),
    ),
    "`Net` renamed": (NET, (("class Net", "class Network"), ("net = Net()", "net = Network()"))),
    "`Net` renamed, an operation deleted": (
        NET,
        (("class Net", "class Network"), ("net = Net()", "net = Network()"), ("x.sum()", "x")),
    ),
    "only the first layer compiled": (NET, ((COMPILES, COMPILES.replace("net", "net.blocks[0]")),)),
    "a call more": (NET, ((CALL * 2, CALL * 3),)),
    "a call less": (NET, ((CALL * 2, CALL),)),
    "the `print` removed": (PRINTS, (('        print("head")\n', ""),)),
    "the `print` replaced by another one": (
        PRINTS,
        (('print("head")', "print(len(self.blocks))"),),
    ),
    "both inputs of one size": (TWO_SIZES, (("torch.ones(5)", "torch.ones(3)"),)),
    "the call with the other size removed": (TWO_SIZES, (("    run(torch.ones(5))\n", ""),)),
}


def run(directory: Path, *options: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    subprocess.run(
        [*command, "--graph-budget-report=graphs.json"], cwd=directory, capture_output=True
    )
    tests: list[dict[str, Any]] = json.loads((directory / "graphs.json").read_text())["tests"]
    return sorted(tests, key=lambda test: str(test["nodeid"]))


def write(directory: Path, *, edited: bool) -> None:
    for number, (program, changes) in enumerate(PROGRAMS.values()):
        for old, new in changes if edited else ():
            assert old in program
            program = program.replace(old, new)
        (directory / f"test_{number:02}.py").write_text(program)


@pytest.mark.usefixtures("forks")
def test_each_edit_has_its_verdict_in_any_kind_of_checkout(tmp_path: Path) -> None:
    full, shallow, bare = (tmp_path / name for name in ("full", "shallow", "bare"))
    full.mkdir()
    (full / "pytest.ini").write_text("[pytest]\n")
    write(full, edited=False)
    before = run(full, "--graph-budget-record")
    (full / "graphs.json").unlink()
    git(full, "init", "-q")
    commit(full)
    write(full, edited=True)
    commit(full)
    git(tmp_path, "clone", "-q", "--depth", "1", full.as_uri(), str(shallow))
    shutil.copytree(full, bare, ignore=shutil.ignore_patterns(".git"))
    seen = run(full, "--graph-budget")
    some = [f"test_{number:02}.py" for number in range(0, len(EDITS), SOME)]
    elsewhere = [run(place, "--graph-budget", *some) for place in (shallow, bare)]
    assert [*PROGRAMS] == [edit.words for edit in EDITS]
    for number, edit in enumerate(EDITS):
        was, now = counts_of(before[number]), counts_of(seen[number])
        assert (was, now) == (edit.before, edit.after), edit.words
        assert seen[number]["verdict"] == edit.verdict, edit.words
    verdicts = [test["verdict"] for test in seen[::SOME]]
    assert [[test["verdict"] for test in tests] for tests in elsewhere] == [verdicts] * 2
