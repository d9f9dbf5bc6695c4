"""``graphbreak export``: whether ``torch.export`` takes what a program compiles."""

from __future__ import annotations

import json

import pytest

from tests.repair.conftest import Shop

pytestmark = pytest.mark.once

PROGRAM = """
    import torch

    class Net(torch.nn.Module):
        def forward(self, x, *, scale=1.0):
            {line}
            return x * scale

    net = torch.compile(Net(), backend="eager")
    net(torch.ones(4), scale=2.0)
    net(torch.ones(4), scale=3.0)
"""


def test_a_module_exports(shop: Shop) -> None:
    shop.write("a.py", PROGRAM.format(line="x = x + 1"))
    said = shop.run("export", "a.py")
    assert (said.code, said.out) == (0, "Net  strict: exports\nNet  not strict: exports\n")


def test_a_branch_on_data_is_an_error_with_its_line(shop: Shop) -> None:
    shop.write("a.py", PROGRAM.format(line="x = x + 1 if x.sum() > 3 else x"))
    said = shop.run("export", "a.py", "--json", "out.json")
    assert said.code == 1
    lines = said.out.splitlines()
    assert lines[0] == "Net  strict: fails"
    assert lines[1] == "    GB0170  Data-dependent branching"
    assert lines[2] == "      a.py:6 in Net.forward"
    assert lines[3].strip() == "x = x + 1 if x.sum() > 3 else x"
    assert lines[4].endswith(" explain GB0170")
    assert lines[5] == "Net  not strict: fails"
    (one,) = json.loads((shop.path / "out.json").read_text())["exports"]
    assert one["strict"]["where"]["line"] == one["not strict"]["where"]["line"] == 6


def test_what_only_the_strict_way_refuses(shop: Shop) -> None:
    shop.write("a.py", PROGRAM.format(line="torch._dynamo.graph_break()"))
    said = shop.succeed("export", "a.py")
    assert "Net  strict: fails" in said.out
    assert "Net  not strict: exports" in said.out


def test_each_function_is_exported(shop: Shop) -> None:
    shop.write(
        "test_a.py",
        """
        import torch

        @torch.compile(backend="eager")
        def double(x):
            return x * 2

        @torch.compile(backend="eager")
        def halve(x):
            return x / 2

        def test_both():
            halve(double(torch.ones(3)))
        """,
    )
    said = shop.succeed("export", "test_a.py::test_both")
    assert [line.split()[0] for line in said.out.splitlines()] == ["double"] * 2 + ["halve"] * 2


def test_what_is_exported_is_called(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """``torch.export`` accepts a mutable global that its module does not find again."""
    shop.write(
        "a.py",
        """
        import torch

        exported = torch.export.export

        def export(module, *args, **kwargs):
            program = exported(module, *args, **kwargs)
            program.module = lambda: (_ for _ in ()).throw(KeyError("no such attribute"))
            return program

        torch.export.export = export
        torch.compile(torch.nn.Linear(2, 2), backend="eager")(torch.ones(1, 2))
        """,
    )
    said = shop.run("export", "a.py")
    assert said.code == 1
    assert "KeyError: no such attribute" in said.out
