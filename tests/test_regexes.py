"""No regular expression of the package takes longer than in proportion to its text.

Much of what they read was written by others: logs, reports, messages of torch.
"""

from __future__ import annotations

import re

import pytest

from tests.regexes import DYNAMIC, Expression, expressions, slow

pytestmark = pytest.mark.pure


MOST = 20
"""The strings that an expression is tried on; the slow ones below are found with 15 of them.

One that is put together of many alternatives has a hundred thousand.
"""


@pytest.mark.parametrize("most", [MOST, pytest.param(None, marks=pytest.mark.nightly)])
def test_every_expression_is_linear(most: int | None) -> None:
    found = list(expressions(DYNAMIC))
    assert len(found) > 150
    assert {one.where.partition(":")[0] for one in found} >= {
        "logs/dynamo.py",
        "advice/reasons.py",
    }
    faults = [words for one in found if (words := slow(one, most))]
    assert not faults, "\n".join(faults)


def expression(text: str, method: str) -> Expression:
    return Expression("here", re.compile(text, re.M), frozenset([method]))


@pytest.mark.parametrize(
    ("text", "method"),
    [
        (r"\s+#|\n", "split"),
        pytest.param(
            r"WON'T CONVERT (.+?) ([^\n]+) line (\d+)", "match", marks=pytest.mark.nightly
        ),
        (r"function: '(.*?)' \((.*):(\d+)\)", "search"),
        (r"(a+)+$", "match"),
        (r"(?:\w|\w\w)*;", "match"),
        pytest.param(r"x[^y]*,[^y]*,[^y]*y", "match", marks=pytest.mark.nightly),
        pytest.param(r"<b>.*?</b>", "sub", marks=pytest.mark.nightly),
    ],
)
def test_slow_expressions_are_found(text: str, method: str) -> None:
    assert slow(expression(text, method), MOST)
