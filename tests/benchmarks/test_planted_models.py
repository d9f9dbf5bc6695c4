"""The edits planted in models of transformers: each fits the files that this release has."""

from __future__ import annotations

import ast

import pytest

pytest.importorskip("transformers")

from benchmarks.planted.edits import TEST, Edit, edited
from benchmarks.planted.models import EDITS, PROGRAMS, copied


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: f"{edit.program} {edit.kind}")
def test_an_edit_fits_and_imports_are_absolute(edit: Edit) -> None:
    program = PROGRAMS[edit.program]
    text = {TEST: program, **copied(program)}[edit.file]
    after = edit.applied(text)
    ast.parse(after)
    assert edited(text, after)
    assert "from ." not in text
