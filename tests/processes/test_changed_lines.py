"""A red test names the lines that changed since its baseline was committed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pytest_graphbreak.suite.changed_lines import changed_since
from tests.conftest import Suite

pytestmark = pytest.mark.once

HELPER = """
    import torch

    WIDTHS = {"first": 3, "last": 3}

    def widths():
        return WIDTHS.values()
"""
PROGRAM = """
    import torch
    import helper

    def wave(x):
        return x.sin()

    def test_it():
        run = torch.compile(wave, backend="eager", dynamic=False)
        for width in helper.widths():
            run(torch.ones(width))
"""


def git(suite: Suite, *args: str) -> None:
    user = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *user, *args], cwd=suite.path, check=True, capture_output=True)


def record(suite: Suite) -> None:
    changed_since.cache_clear()
    sys.modules.pop("helper", None)
    suite.pytester.makeini("[pytest]")
    suite.write(HELPER, "helper")
    suite.write(PROGRAM)
    suite.run("--graph-budget-record").assert_outcomes(passed=1)
    git(suite, "init", "-q")
    git(suite, "add", "-A")
    git(suite, "commit", "-q", "-m", "x")
    sys.modules.pop("helper", None)  # it stays imported, and is edited


def test_an_edit_that_no_place_leads_to_is_shown(suite: Suite) -> None:
    record(suite)
    suite.write(HELPER.replace('"last": 3', '"last": 14'), "helper")
    result = suite.run("--graph-budget")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "  + recompile 0/1*",
            "      changed since the baseline (??????????): helper.py:3 in <module>",
            '          WIDTHS = {"first": 3, "last": 14}',
        ]
    )


def test_a_line_that_the_entry_has_is_not_shown_again(suite: Suite) -> None:
    record(suite)
    suite.write(PROGRAM.replace("torch.ones(width))", "torch.ones(width)), run(torch.ones(14))"))
    result = suite.run("--graph-budget")
    result.assert_outcomes(failed=1)
    result.stdout.no_fnmatch_line("*changed since*")


MOVED = """
    import torch

    def head(x):
        y = x.sin() * 2
        return y.sigmoid()

    def test_it():
        run = torch.compile(head, backend="eager")
        out = run(torch.ones(3))
        assert out.sum() > 0
"""


@pytest.mark.parametrize(
    ("edits", "verdict"),
    [
        (
            [
                ("return y.sigmoid()", "return y"),
                ("run(torch", "torch.sigmoid(run(torch"),
                ("(3))", "(3)))"),
            ],
            "lost",
        ),
        ([("return y.sigmoid()", "return y")], "changed"),
        ([("x.sin() * 2", "x.sin()"), ("out.sum() > 0", "out.mean() > 0")], "changed"),
    ],
)
def test_an_operation_that_moved_out_of_compiled_code(
    suite: Suite, edits: list[tuple[str, str]], verdict: str
) -> None:
    """In counts it is like one that was deleted; git has the lines."""
    changed_since.cache_clear()
    suite.pytester.makeini("[pytest]")
    suite.write(MOVED)
    suite.run("--graph-budget-record").assert_outcomes(passed=1)
    git(suite, "init", "-q")
    git(suite, "add", "-A")
    git(suite, "commit", "-q", "-m", "x")
    after = MOVED
    for old, new in edits:
        assert after.count(old) == 1
        after = after.replace(old, new)
    suite.write(after)
    (test,) = suite.report("--graph-budget")["tests"]
    assert test["verdict"] == verdict
    if verdict == "lost":
        assert "test_it.py:9 in test_it\n          out = torch.sigmoid(run(" in test["message"]


LAYERS = """
    import torch

    class Part(torch.nn.Module):
        def forward(self, x):
            return x.sin() + 1

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = torch.nn.ModuleList(Part() for _ in range(3))

        def forward(self, x):
            for part in self.parts:
                x = part(x)
            return x.tanh()

    STEPS = {"one": lambda run: run(torch.ones(3))}

    def test_it():
        net = Net()
        torch.compile(net, backend="eager")(torch.ones(3))
        for part in net.parts:
            part.compile(backend="eager")
        STEPS["one"](net)
"""


@pytest.mark.parametrize("committed", [True, False])
def test_a_constructor_that_makes_fewer_layers(suite: Suite, committed: bool) -> None:
    """The source does not show what ``STEPS`` calls; that only the constructor changed, git does"""
    changed_since.cache_clear()
    suite.pytester.makeini("[pytest]")
    suite.write(LAYERS)
    suite.run("--graph-budget-record").assert_outcomes(passed=1)
    if committed:
        git(suite, "init", "-q")
        git(suite, "add", "-A")
        git(suite, "commit", "-q", "-m", "x")
    suite.write(LAYERS.replace("range(3)", "range(2)"))
    (test,) = suite.report("--graph-budget")["tests"]
    assert test["verdict"] == ("changed" if committed else "lost")


def test_many_lines_are_counted(suite: Suite) -> None:
    record(suite)
    more = "".join(f"    X{number} = {number}\n" for number in range(9))
    suite.write(f"{HELPER.replace(': 3}', ': 14}')}{more}", "helper")
    result = suite.run("--graph-budget")
    result.stdout.fnmatch_lines(["      ... and 8 more lines"])
