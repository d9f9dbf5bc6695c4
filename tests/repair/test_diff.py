"""``fix --diff``: the change of a library's own file, which ``patch`` takes."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from pytest_graphbreak.model.record import Frame
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
    said = shop.succeed("fix", "model.py", "--diff", "--runs", "8")
    assert said.out.startswith("--- a/library/heads.py\n+++ b/library/heads.py\n")
    assert "-        torch._dynamo.graph_break()" in said.out
    assert "Wrote model_fixed.py." in said.err
    if shutil.which("patch"):
        subprocess.run(["patch", "-p1"], input=said.out, text=True, cwd=shop.path, check=True)
        assert "graph_break()" not in heads.read_text()
        compile(heads.read_text(), str(heads), "exec")


def test_what_no_file_of_a_library_holds_is_named(shop: Shop) -> None:
    (shop.path / "heads.py").write_text(LIBRARY)
    where = Frame("lib/heads.py", "Head.forward", 7, PRINTS)
    kept = [
        SourcePatch("both", (Rewrite(enable.only_eager, where), switch("allow_rnn"))),
        SourcePatch("a switch", (switch("nested_graph_breaks"),)),
    ]
    found = difference(
        PROGRAM, "model.py", kept, {"lib/heads.py": Site(shop.path / "heads.py", "")}
    )
    added = [line for line in found.text.splitlines() if line.startswith("+ ")]
    assert added == [
        "+        if not torch.compiler.is_compiling():",
        f"+            {PRINTS}",
    ]
    assert found.left_out == ("both", "a switch")


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
    assert "no file of a library holds all of it: capture_scalar_outputs" in said.err
    assert "No source file is changed: there is no diff." in said.err
