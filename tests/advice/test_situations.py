"""Every line after ``fix:`` is a promise: followed literally, the program is green."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("torch")

from tests.advice import running
from tests.advice.situations import Situation, breaks, recompiles
from tests.conftest import Suite

HERE = [row for row in (*breaks.SITUATIONS, *recompiles.SITUATIONS) if running.applies(row)]
_FIX = re.compile(r"^ +fix: (.+)$", re.MULTILINE)


@pytest.mark.parametrize("row", HERE, ids=str)
def test_what_a_red_test_says_makes_it_green(row: Situation, suite: Suite) -> None:
    text = failure(row, suite)
    assert set(_FIX.findall(text)) == set(row.said)
    for shown in row.shown:
        assert shown in text
    for edits in row.ways:
        run(row, row.edited(edits), suite).assert_outcomes(passed=1)


def failure(row: Situation, suite: Suite) -> str:
    """Return what the red test shows."""
    if row.recorded:
        run(row, row.edited(row.recorded), suite, "--graph-budget-record").assert_outcomes(passed=1)
    result = run(row, row.program, suite)
    result.assert_outcomes(failed=1)
    whole = str(result.stdout)
    return whole.partition("= FAILURES =")[2].partition("short test summary")[0]


def run(row: Situation, program: str, suite: Suite, *arguments: str) -> pytest.RunResult:
    suite.write(program)
    gate = ("--graph-budget",) if row.recorded else ()
    with running.clean_dynamo():
        return suite.run(*gate, *arguments)
