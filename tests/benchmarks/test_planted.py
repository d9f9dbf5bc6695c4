"""The planted edits: each fits its program once, and a line is named where an entry has it."""

from __future__ import annotations

import ast

import pytest

from benchmarks.planted import written
from benchmarks.planted.edits import TEST, Edit, Outcome, edited, first_entry, table
from benchmarks.planted.truth import worse

pytestmark = pytest.mark.pure

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


@pytest.mark.parametrize(
    "edit", written.EDITS, ids=lambda edit: f"{edit.program} {edit.new.strip()}"
)
def test_an_edit_fits_its_program_and_is_python(edit: Edit) -> None:
    text = written.PROGRAMS[edit.program]
    after = edit.applied(text)
    ast.parse(after)
    assert edited(text, after)


def test_an_edit_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(ValueError, match="mlp does not have this once: 'x'"):
        Edit("mlp", "break", "x", "y").applied("x x")


def outcome(*lines: int, worse: tuple[str, ...] = ("graphs",), verdict: str = "over") -> Outcome:
    return Outcome("mlp", "break", "y", {TEST: [*lines]}, [*worse], verdict, RED)


def test_an_outcome_is_named_by_the_first_entry() -> None:
    assert outcome(12).words == "caught"
    assert outcome(1, 7, 30).words == "UNNAMED"
    assert outcome(12, worse=()).words == "FALSE ALARM"
    assert outcome(12, verdict="ok").words == "MISSED"
    assert outcome(worse=(), verdict="ok").words == "green"
    rows = table([outcome(12), outcome(7)], {"break": 3}).splitlines()
    assert rows[-2:] == [
        "| break | 3 | 2 | 2 | 2 | 1 | 0 | 0 |",
        "| all | 3 | 2 | 2 | 2 | 1 | 0 | 0 |",
    ]


def test_the_lines_of_an_edit() -> None:
    assert edited("a\nb\nc\n", "a\nx\ny\nc\n") == [2, 3]
    assert edited("a\nb\nc\n", "a\nc\n") == [1, 2]
    assert edited("a\n", "a\n") == []


def test_the_first_entry_is_that_of_what_is_new() -> None:
    assert first_entry(RED).splitlines()[0] == "  + GB0059  Failed to trace builtin operator"
    assert first_entry("graph budget: ok\n") == ""


def test_what_made_a_program_worse() -> None:
    before = {"graphs": 1, "executions": 3, "recompiles": 0, "places": 0, "eager": []}
    before |= {"compiled": 15, "calls": 20}
    assert worse(before, before) == []
    assert worse(before, before | {"graphs": 2, "places": 1}) == ["graphs", "places"]
    assert worse(before, before | {"executions": 5}) == ["executions"]
    assert worse(before, before | {"eager": ["f"]}) == ["eager"]
    # Fewer operators run in graphs and more outside; of a smaller program nothing is lost.
    assert worse(before, before | {"compiled": 12}) == ["lost"]
    assert worse(before, before | {"compiled": 12, "calls": 17}) == []
    assert worse(before, before | {"calls": 22}) == []
