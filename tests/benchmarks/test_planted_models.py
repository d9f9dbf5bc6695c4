"""The edits planted in models of transformers: each fits the files that this release has."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

pytest.importorskip("transformers")

from benchmarks.planted import drawn, held_out, held_out_programs
from benchmarks.planted.edits import TEST, Edit, edited
from benchmarks.planted.models import EDITS, PROGRAMS, copied

TEXTS = PROGRAMS | held_out_programs.PROGRAMS


@pytest.mark.parametrize(
    "edit", [*EDITS, *held_out.EDITS], ids=lambda edit: f"{edit.program} {edit.kind}"
)
def test_an_edit_fits_and_imports_are_absolute(edit: Edit) -> None:
    program = TEXTS[edit.program]
    beside = held_out_programs.BESIDE.get(edit.program, {})
    text = {TEST: program, **beside, **copied(program)}[edit.file]
    after = edit.applied(text)
    ast.parse(after)
    assert edited(text, after)
    assert "from ." not in text


def test_lines_are_drawn_for_a_file_that_is_no_copy(tmp_path: Path) -> None:
    files = {TEST: held_out_programs.PROGRAMS["encode"], **held_out_programs.BESIDE["encode"]}
    edits = drawn.edits(2, {"encode": files}, tmp_path, held_out.templates)
    assert {edit.file for edit in edits} == {"digits.py"}
    assert len(edits) == 8
    for edit in edits:
        ast.parse(edit.applied(files[edit.file]))


def test_a_seed_draws_edits_that_fit(tmp_path: Path) -> None:
    text = drawn.PROGRAMS["see"]
    files = {TEST: text, **copied(text)}
    edits = []
    for number, seed in enumerate((1, 1, 2)):
        (folder := tmp_path / str(number)).mkdir()
        edits.append(drawn.edits(seed, {"see": files}, folder))
    assert edits[0] == edits[1] != edits[2]
    for edit in edits[0]:
        if edit.program == "see":
            ast.parse(edit.applied(files[edit.file]))
