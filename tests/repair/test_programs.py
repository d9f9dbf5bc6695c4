"""Functions at the head of patched files: files of their own, copied as text."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from pytest_graphbreak.repair.remedies import programs

NAMES = sorted(
    path.stem
    for path in Path(programs.__file__).parent.glob("*.py")
    if not path.stem.startswith("__")
)


@pytest.mark.parametrize("name", NAMES)
def test_a_program_is_functions_of_our_names_and_nothing_of_ours(name: str) -> None:
    text = programs.program(name)
    assert text
    assert "pytest_graphbreak" not in text
    for node in ast.parse(text).body:
        assert isinstance(node, (ast.FunctionDef, ast.Assign))
        if isinstance(node, ast.FunctionDef):
            assert node.name.startswith("_graphbreak_")
    assert text == text.strip()
