"""A red test names the lines that changed since its baseline was committed."""

from __future__ import annotations

import sys

import pytest

from pytest_graphbreak.report.checkout import changed_since
from tests.checkout import commit, git
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


def record(suite: Suite) -> None:
    changed_since.cache_clear()
    sys.modules.pop("helper", None)
    suite.pytester.makeini("[pytest]")
    suite.write(HELPER, "helper")
    suite.write(PROGRAM)
    suite.run("--graph-budget-record").assert_outcomes(passed=1)
    git(suite.path, "init", "-q")
    commit(suite.path)
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


def test_many_lines_are_counted(suite: Suite) -> None:
    record(suite)
    more = "".join(f"    X{number} = {number}\n" for number in range(9))
    suite.write(f"{HELPER.replace(': 3}', ': 14}')}{more}", "helper")
    result = suite.run("--graph-budget")
    result.stdout.fnmatch_lines(["      ... and 8 more lines"])


def test_the_line_of_its_own_function_comes_before_those_of_other_tests(suite: Suite) -> None:
    record(suite)
    other = "    def test_first():\n        pass\n\n    def test_it"
    moved = PROGRAM.replace("    def test_it", other).replace(
        "torch.compile(wave,", "dict(wave=wave,"
    )
    suite.write(moved.replace("run(torch", "wave(torch"))
    result = suite.run("--graph-budget")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(
        [
            "      changed since the baseline (??????????): *:* in test_it",
            "          run = dict(wave=wave, *",
        ]
    )
