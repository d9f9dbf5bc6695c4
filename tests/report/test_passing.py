"""What changed in tests that pass is shown, each place once over the run."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from pytest_graphbreak.model.differences import Difference
from pytest_graphbreak.model.record import Break, Frame, Record
from pytest_graphbreak.model.report import TestReport
from pytest_graphbreak.report import github
from pytest_graphbreak.report.root_causes import IN_FULL, passing_changes, passing_lines
from pytest_graphbreak.report.view import row
from tests.conftest import Suite

pytestmark = pytest.mark.once

NEW = Frame("net.py", "head", 7, "if y.sum().item() > 1:")
GONE = Frame("net.py", "head", 0, 'print("head")')
ITEM = Break("dynamo", "Unsupported Tensor.item() call", NEW, "GB0124")
CHANGES = (
    Difference("break", "dynamo", where=NEW, id="GB0124", before=0, after=1, items=(0,)),
    Difference("break", "dynamo", where=GONE, reason="print", id="GB0059", before=1),
)


def passed(name: str, *changes: Difference, verdict: str = "changed") -> TestReport:
    record = Record(("dynamo",), {"dynamo": 4}, breaks=(ITEM,))
    return TestReport(name, "passed", verdict=verdict, record=record, changes=changes)


def reported(*tests: TestReport) -> list[str]:
    return [
        str(line) for line in passing_lines(passing_changes((one.nodeid, one) for one in tests))
    ]


def test_each_place_is_reported_once_whoever_has_it() -> None:
    tests = [passed(f"test_{number}", *CHANGES) for number in range(3)]
    assert reported(*tests, passed("test_b", CHANGES[1], verdict="improved")) == [
        "What changed in tests that pass:",
        "  + GB0124  Unsupported Tensor.item() call",
        "      net.py:7 in head",
        "          if y.sum().item() > 1:",
        "      fix: torch.where or torch.cond on the tensor, without .item(), "
        "which breaks here even captured",
        "      in 3 tests; one of them:",
        "          test_0",
        "  - GB0059  print   gone",
        "      net.py in head",
        '          print("head")',
        "      in 4 tests; one of them:",
        "          test_0",
    ]


def test_what_fails_or_is_written_is_reported_elsewhere() -> None:
    red = replace(passed("test_a", *CHANGES), failed_by="gate")
    written = replace(passed("test_b", *CHANGES), written=True)
    assert reported(red, written, passed("test_c", *CHANGES, verdict="ok")) == []


def test_many_changes_are_cut_short_and_then_counted() -> None:
    many = [replace(CHANGES[1], where=Frame("a.py", f"f{number}", 0, "x")) for number in range(130)]
    lines = reported(passed("test_a", *many))
    assert lines.count("          x") == IN_FULL
    assert lines[-1] == "  ... and 30 more changes (the JSON report has them all)"


def test_a_row_shows_operations_where_they_are_the_change() -> None:
    fell = Difference("ops", "dynamo", total=True, before=28, after=17, verdict="changed")
    shown = "test_a   dynamo 0 -> 4, 1 graph break, captured operations 28 -> 17"
    assert row(passed("test_a", fell)) == shown
    assert "operations" not in row(passed("test_a", fell, verdict="improved"))


def test_an_annotation_warns_of_what_is_new(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("x")
    (line,) = github.warnings([passed("test_a", *CHANGES)], tmp_path)
    assert line.startswith("::warning file=net.py,line=7,title=graph budget%3A 1 test%2C GB0124")


PROGRAM = """
    import torch

    @torch.compile(backend="eager")
    def head(x):
        y = x + 1
        LINE
        return y * 2

    def test_it():
        head(torch.ones(3))
"""


@pytest.fixture
def edited(suite: Suite) -> Suite:
    """A suite that was recorded with a print, and has another break in its place."""
    pytest.importorskip("torch")
    suite.write(PROGRAM.replace("LINE", 'print("head")'))
    suite.run("--graph-budget-record").assert_outcomes(passed=1)
    suite.write(PROGRAM.replace("LINE", "y = y if y.sum().item() > 9 else y"))
    return suite


def test_a_new_place_is_shown_before_it_can_be_accepted(edited: Suite) -> None:
    result = edited.run("--graph-budget", "--graph-budget-report=graphs.json")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "changed    test_it.py::test_it   dynamo 2, 1 graph break, captured *2 -> 3",
            "What changed in tests that pass:",
            "  + GB0124  Unsupported Tensor.item() call*",
            "      test_it.py:* in head",
            "  - GB0059 * gone",
            "next       *",
        ]
    )
