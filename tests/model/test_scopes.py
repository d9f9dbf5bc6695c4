"""Source of others is parsed without a warning, whatever the filters of the program are."""

from __future__ import annotations

import ast
import warnings

import pytest

from pytest_graphbreak.model.scopes import parse_source

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    "text",
    [
        '"\\d"',
        "'\\d\\'\\e'",
        'f"\\{x}"',
        'f"\\N{EM DASH}{x}"',
        'rf"\\d{x}"',
        'b"\\N"',
        '"\\777\\x41"',
        '"a\\\nb\\\\"; x = 1',
        "x = 1 + \\\n    2\r\ny = \\\r\n  3",
        '"""\n\\d\\"""\n"""',
    ],
)
def test_parsed_source_warns_nobody(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tree = parse_source(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = ast.parse(text)
    assert _shape(tree) == _shape(wanted)


def _shape(tree: ast.AST) -> list[tuple[object, ...]]:
    return [
        (type(node), getattr(node, "lineno", 0), getattr(node, "col_offset", 0))
        for node in ast.walk(tree)
    ]
