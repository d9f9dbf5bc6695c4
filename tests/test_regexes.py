"""No regular expression of the package takes longer than in proportion to its text.

Much of what they read was written by others: logs, reports, messages of torch.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields

import pytest

from pytest_graphbreak.advice import triage
from pytest_graphbreak.advice.explanation import by_name
from pytest_graphbreak.advice.family import families
from pytest_graphbreak.baseline import form
from pytest_graphbreak.layers.inductor import skips
from pytest_graphbreak.layers.xla import explain
from tests.regexes import Expression, expressions, slow

pytestmark = pytest.mark.pure


def signs() -> Iterator[str]:
    for group in fields(families()):
        for sign in (one for family in getattr(families(), group.name) for one in family.signs):
            yield from filter(None, (sign.reason, sign.detail, sign.code))


def rules(*parts: str) -> Iterator[str]:
    for rule in triage._table().rules:
        yield from filter(None, (getattr(rule, part) for part in parts))


DYNAMIC: dict[str, Callable[[], Iterable[str]]] = {
    "baseline/read.py:words.pattern": lambda: [
        kind.__metadata__[0].pattern for kind in (form.Words, form.Version)
    ],
    "advice/family.py:part": signs,
    "advice/family.py:self.reason": signs,
    "advice/match.py:f\"\\\\b{re.escape(inner.function.split('.')[-2])}\\\\.apply\\\\(\"": lambda: [
        r"\bScale\.apply\("
    ],
    "advice/match.py:line.reason": lambda: [
        line.reason for one in by_name().values() for line in one.lines
    ],
    "cli/accept.py:fnmatch.translate(text.replace('[', '[[]'))": lambda: [
        fnmatch.translate("tests/*::test_*[[]*-*]")
    ],
    "layers/children/process.py:f'{re.escape(default)}-[\\\\d:]+'": lambda: [r"Process\-[\d:]+"],
    'layers/dynamo/guard_values.py:f"\\\\b{re.escape(name)}\\\\b\'?\\\\]?[.)]"': lambda: [
        r"\bblock\b'?\]?[.)]"
    ],
    "layers/inductor/skips.py:pattern": lambda: [pattern for pattern, _ in skips.WORDS],
    "layers/xla/explain.py:pattern": lambda: [one.pattern for one, _ in explain.READERS],
    "advice/triage.py:self.error": lambda: rules("error"),
    "advice/triage.py:part": lambda: rules("message", "place", "trace"),
}
"""What the patterns are that are in no source text; a new one is to be listed here."""


@pytest.mark.parametrize("most", [1_000, pytest.param(None, marks=pytest.mark.nightly)])
def test_every_expression_is_linear(most: int | None) -> None:
    """One that is put together of many alternatives has a hundred thousand ways to be attacked."""
    found = list(expressions(DYNAMIC))
    assert len(found) > 150
    assert {one.where.partition(":")[0] for one in found} >= {
        "layers/dynamo/log.py",
        "advice/match.py",
    }
    faults = [words for one in found if (words := slow(one, most))]
    assert not faults, "\n".join(faults)


def expression(text: str, method: str) -> Expression:
    return Expression("here", re.compile(text, re.M), frozenset([method]))


@pytest.mark.parametrize(
    ("text", "method"),
    [
        (r"\s+#|\n", "split"),
        (r"WON'T CONVERT (.+?) ([^\n]+) line (\d+)", "match"),
        (r"function: '(.*?)' \((.*):(\d+)\)", "search"),
        (r"(a+)+$", "match"),
        (r"(?:\w|\w\w)*;", "match"),
        (r"x[^y]*,[^y]*,[^y]*y", "match"),
        (r"<b>.*?</b>", "sub"),
    ],
)
def test_slow_expressions_are_found(text: str, method: str) -> None:
    assert slow(expression(text, method))


@pytest.mark.parametrize(
    ("text", "method"),
    [
        (r"\s#|\n", "split"),
        (r"\s+#", "match"),
        (r"[^#\n]*#", "match"),
        (r"^ *- (\S.*)$", "findall"),
        (r"(?:a|b|c|d)*e", "match"),
        (r"<[^<>]{0,256}>", "search"),
    ],
)
def test_linear_expressions_are_not(text: str, method: str) -> None:
    assert slow(expression(text, method)) is None
