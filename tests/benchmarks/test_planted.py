"""The planted edits: each fits its program once, and a line is named where an entry has it."""

from __future__ import annotations

import ast

import pytest

from benchmarks.planted.__main__ import edited, first_entry, is_named
from benchmarks.planted.truth import worse
from benchmarks.planted.written import EDITS, PROGRAMS, Edit

RED = """\
graph budget: 2 dynamo graphs, the baseline allows 1 (+1)

  - dynamo graph 0/0 has 3 of 5 operations left
      test_planted.py:7 in f
  + GB0059  Failed to trace builtin operator
      test_planted.py:12 in Net.forward
          print("x")
  + recompile 0/1   n == 3
      test_planted.py:30 in step

  dynamo 1 -> 2
"""


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: f"{edit.program} {edit.new.strip()}")
def test_an_edit_fits_its_program_and_is_python(edit: Edit) -> None:
    text = PROGRAMS[edit.program]
    assert text.count(edit.old) == 1
    after = text.replace(edit.old, edit.new)
    ast.parse(after)
    assert edited(text, after)


def test_the_lines_of_an_edit() -> None:
    assert edited("a\nb\nc\n", "a\nx\ny\nc\n") == [2, 3]
    assert edited("a\nb\nc\n", "a\nc\n") == [1, 2]
    assert edited("a\n", "a\n") == []


def test_the_first_entry_is_that_of_what_is_new() -> None:
    assert first_entry(RED).splitlines()[0] == "  + GB0059  Failed to trace builtin operator"
    assert is_named(RED, {"test_planted.py": [12]})
    assert not is_named(RED, {"test_planted.py": [1, 7, 30]})
    assert first_entry("graph budget: ok\n") == ""


def test_what_made_a_program_worse() -> None:
    before = {"graphs": 1, "recompiles": 0, "places": 0, "eager": [], "ops": 9, "calls": 20}
    assert worse(before, before) == []
    assert worse(before, before | {"graphs": 2, "places": 1}) == ["graphs", "places"]
    assert worse(before, before | {"eager": ["f"]}) == ["eager"]
    # Less is captured of a program that computes as much; of a smaller one nothing is lost.
    assert worse(before, before | {"ops": 7}) == ["lost"]
    assert worse(before, before | {"ops": 7, "calls": 16}) == []
