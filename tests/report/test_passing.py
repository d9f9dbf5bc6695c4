"""What changed in tests that pass is shown, each place once over the run."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pytest_graphbreak.model.differences import Difference
from pytest_graphbreak.model.items import Break, Frame
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.report import TestReport
from pytest_graphbreak.report.root_causes import IN_FULL, passing_changes, passing_lines

pytestmark = pytest.mark.pure

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
        "      fix: torch.where(condition, a, b), without .item(), "
        "where both sides only make a tensor of one shape",
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
