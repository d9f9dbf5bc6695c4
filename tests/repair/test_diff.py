"""``fix --diff``: the change of a library's own file, which ``patch`` takes."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from pytest_graphbreak.model.record import Break, Frame
from pytest_graphbreak.repair.build import Site, difference
from pytest_graphbreak.repair.patch import Rewrite, SourcePatch, switch
from pytest_graphbreak.repair.remedies import enable
from tests.repair.conftest import Shop

pytestmark = pytest.mark.once

LIBRARY = """\
import torch


class Head(torch.nn.Module):
    def forward(self, x):
        x = x + 1
        print("forward", x.shape[0])
        return x * 2
"""
PRINTS = 'print("forward", x.shape[0])'
PROGRAM = """\
import torch

from library.heads import Head

head = torch.compile(Head(), backend="eager")
head(torch.ones(3))
"""


def test_the_file_of_a_library_gets_a_diff_that_patch_takes(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shop.path / "library").mkdir()
    (shop.path / "library" / "__init__.py").touch()
    heads = shop.path / "library" / "heads.py"
    heads.write_text(LIBRARY.replace(PRINTS, "torch._dynamo.graph_break()"))
    shop.write("model.py", PROGRAM)
    monkeypatch.setenv("PYTHONPATH", str(shop.path))
    said = shop.run("fix", "model.py", "--diff", "--runs", "8")
    assert said.code == 0, said.err
    assert said.out.startswith("--- a/library/heads.py\n+++ b/library/heads.py\n")
    assert "-        torch._dynamo.graph_break()" in said.out
    assert "# GB0025 under torch.compile: Call to" in said.out
    assert "Wrote model_fixed.py." in said.err
    if shutil.which("patch"):
        subprocess.run(["patch", "-p1"], input=said.out, text=True, cwd=shop.path, check=True)
        assert "graph_break()" not in heads.read_text().replace("`torch._dynamo.graph_break()`", "")
        compile(heads.read_text(), str(heads), "exec")


def test_each_change_has_its_reason_in_one_comment(shop: Shop) -> None:
    (shop.path / "heads.py").write_text(LIBRARY)
    where = Frame("lib/heads.py", "Head.forward", 7, PRINTS)
    item = Break("dynamo", "Failed to trace builtin operator", where, "GB0059")
    kept = [
        (SourcePatch("both", (Rewrite(enable.only_eager, where), switch("allow_rnn"))), item),
        (SourcePatch("a switch", (switch("nested_graph_breaks"),)), item),
    ]
    found = difference(
        PROGRAM, "model.py", kept, {"lib/heads.py": Site(shop.path / "heads.py", "")}
    )
    added = [line for line in found.text.splitlines() if line.startswith("+ ")]
    assert added[0] == ("+        # GB0059 under torch.compile: Failed to trace builtin operator")
    assert sum("under torch.compile" in line for line in added) == 1
    assert found.left_out == ("torch._dynamo.config.allow_rnn = True", "a switch")


def test_without_a_change_of_source_it_says_so(shop: Shop) -> None:
    shop.write(
        "model.py",
        """\
        import torch


        @torch.compile(backend="eager")
        def f(x):
            return x * x.abs().max().item()


        f(torch.ones(3))
        """,
    )
    said = shop.run("fix", "model.py", "--diff", "--runs", "3")
    assert (said.code, said.out) == (0, "")
    assert "not in the diff, no file of a library holds it: capture_scalar_outputs" in said.err
    assert "No source file is changed: there is no diff." in said.err
