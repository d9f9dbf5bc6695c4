"""``graphbreak repro --as-test --on REV``: is the break older than the change?"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.repair.conftest import Shop

NET = """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        y = x * 2
        {line}
        return y + 1
"""
TEST = """
import torch
from net import Net

def test_net():
    torch.compile(Net(), backend="eager")(torch.ones(3))
"""


def git(path: Path, *args: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", *args],
        cwd=path,
        check=True,
        capture_output=True,
    )


@pytest.fixture
def checkout(shop: Shop) -> Shop:
    """Two commits: the first has no break, the second has one, and so has the checkout."""
    git(shop.path, "init", "-q", "-b", "main")
    for tag, line in (("before", "pass"), ("after", "print('here')")):
        shop.write("net.py", NET.format(line=line))
        shop.write("test_net.py", TEST)
        git(shop.path, "add", "-A")
        git(shop.path, "commit", "-q", "-m", tag)
        git(shop.path, "tag", tag)
    return shop


@pytest.mark.parametrize(
    ("revision", "words"),
    [
        ("before", "it passes: the break came since then"),
        ("after", "it fails, too: the break was there before"),
    ],
)
def test_it_says_whether_the_break_is_older(checkout: Shop, revision: str, words: str) -> None:
    said = checkout.run("repro", "test_net.py::test_net", "--as-test", "--on", revision)
    assert said.code == 0, said.err
    last = said.out.splitlines()[-1]
    assert last.startswith(f"repros/test_net_repro_1.py: on {revision} (")
    assert last.endswith(f") {words}")
    done = subprocess.run(
        ["git", "status", "--porcelain"], cwd=checkout.path, capture_output=True, text=True
    )
    assert done.stdout == "?? repros/\n"


def test_of_two_breaks_in_a_function_only_the_older_one_was_there(checkout: Shop) -> None:
    """The test of the newer one fails there as well, by the older one."""
    checkout.write("net.py", NET.format(line="print('here')\n        torch._dynamo.graph_break()"))
    said = checkout.run("repro", "test_net.py::test_net", "--as-test", "--on", "after")
    assert said.code == 0, said.err
    older, newer = said.out.splitlines()[-2:]
    assert older.endswith(") it fails, too: the break was there before")
    assert newer.endswith(") it fails, but for other breaks: this line does not break there")


def test_a_commit_that_is_not_there(checkout: Shop) -> None:
    said = checkout.run("repro", "test_net.py::test_net", "--as-test", "--on", "nowhere")
    assert said.code == 2
    assert "graphbreak repro: --on nowhere: " in said.err
    assert not (checkout.path / "repros").exists()  # it is said before anything runs


def test_tests_outside_of_the_checkout_are_refused_first(checkout: Shop, tmp_path: Path) -> None:
    out = str(tmp_path.parent / "elsewhere")
    said = checkout.run(
        "repro", "test_net.py::test_net", "--as-test", "--on", "before", "--out", out
    )
    assert said.code == 2
    assert "give an --out that is" in said.err
    assert not Path(out).exists()


def test_without_tests_there_is_nothing_to_run_there(checkout: Shop) -> None:
    said = checkout.run("repro", "test_net.py::test_net", "--on", "before")
    assert said.code == 2
    assert said.err.rstrip().endswith("add --as-test")
