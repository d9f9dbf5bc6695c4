"""What changed in tests that pass is shown, each place once over the run."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from pytest_graphbreak.cli import main
from pytest_graphbreak.model.differences import Difference
from pytest_graphbreak.model.record import Break, Frame, Record
from pytest_graphbreak.model.report import TestReport
from pytest_graphbreak.report import github, swaps
from pytest_graphbreak.report.view import row
from tests.conftest import Suite

NEW = Frame("net.py", "head", 7, "if y.sum().item() > 1:")
GONE = Frame("net.py", "head", 0, 'print("head")')
ITEM = Break("dynamo", "Unsupported Tensor.item() call", NEW, "GB0124")
CHANGES = (
    Difference("break", "dynamo", where=NEW, id="GB0124", before=0, after=1, items=(0,)),
    Difference("break", "dynamo", where=GONE, reason="print", id="GB0059", before=1),
)


def passing(name: str, *changes: Difference, verdict: str = "changed") -> TestReport:
    record = Record(("dynamo",), {"dynamo": 4}, breaks=(ITEM,))
    return TestReport(name, "passed", verdict=verdict, record=record, changes=changes)


def reported(*tests: TestReport) -> list[str]:
    return [str(line) for line in swaps.lines(swaps.swaps((one.nodeid, one) for one in tests))]


def test_each_place_is_reported_once_whoever_has_it() -> None:
    tests = [passing(f"test_{number}", *CHANGES) for number in range(3)]
    assert reported(*tests, passing("test_b", CHANGES[1], verdict="improved")) == [
        "What changed in tests that pass:",
        "  + GB0124  Unsupported Tensor.item() call",
        "      net.py:7 in head",
        "          if y.sum().item() > 1:",
        "      fix: keep it a tensor (if: torch.where); as a number "
        "torch._dynamo.config.capture_scalar_outputs = True",
        "      in 3 tests; one of them:",
        "          test_0",
        "  - GB0059  print   gone",
        "      net.py in head",
        '          print("head")',
        "      in 4 tests; one of them:",
        "          test_0",
    ]


def test_what_fails_or_is_written_is_reported_elsewhere() -> None:
    red = replace(passing("test_a", *CHANGES), failed_by="gate")
    written = replace(passing("test_b", *CHANGES), written=True)
    assert reported(red, written, passing("test_c", *CHANGES, verdict="ok")) == []


def test_a_function_of_another_name_and_one_that_is_inlined() -> None:
    renamed = Difference("function", where=Frame("a.py", "Top.forward"), before=3, after=3)
    inlined = Difference("function", where=Frame("a.py", "scale"), before=2)
    lines = reported(passing("test_a", replace(renamed, was="a.py::Head.forward"), inlined))
    assert lines[1:] == [
        "  ~ a.py in Head.forward is now a.py in Top.forward",
        "  - a.py in scale is no longer compiled as a function of its own",
    ]


def test_many_changes_are_cut_short_and_then_counted() -> None:
    many = [replace(CHANGES[1], where=Frame("a.py", f"f{number}", 0, "x")) for number in range(130)]
    lines = reported(passing("test_a", *many))
    assert lines.count("          x") == swaps.IN_FULL
    assert lines[-1] == "  ... and 30 more changes (the JSON report has them all)"


def test_a_row_shows_operations_where_they_are_the_change() -> None:
    fell = Difference("ops", "dynamo", total=True, before=28, after=17, verdict="changed")
    shown = "test_a   dynamo 0 -> 4, 1 graph break, captured operations 28 -> 17"
    assert row(passing("test_a", fell)) == shown
    assert "operations" not in row(passing("test_a", fell, verdict="improved"))


def test_an_annotation_warns_of_what_is_new(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("x")
    (line,) = github.warnings([passing("test_a", *CHANGES)], tmp_path)
    assert line.startswith("::warning file=net.py,line=7,title=graph budget%3A 1 test%2C GB0124")


SWAPPED = """
    import torch

    @torch.compile(backend="eager")
    def head(x):
        y = x + 1
        LINE
        return y * 2

    def test_swap():
        head(torch.ones(3))
"""


@pytest.fixture
def swapped(suite: Suite) -> Suite:
    """A suite that was recorded with a print, and has another break in its place."""
    pytest.importorskip("torch")
    suite.write(SWAPPED.replace("LINE", 'print("head")'))
    suite.run("--graph-budget-record").assert_outcomes(passed=1)
    suite.write(SWAPPED.replace("LINE", "y = y if y.sum().item() > 9 else y"))
    return suite


def test_a_swap_is_shown_before_it_can_be_accepted(swapped: Suite) -> None:
    result = swapped.run("--graph-budget", "--graph-budget-report=graphs.json")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "changed    test_it.py::test_swap   dynamo 2, 1 graph break, captured *2 -> 3",
            "What changed in tests that pass:",
            "  + GB0124  Unsupported Tensor.item() call*",
            "      test_it.py:* in head",
            "  - GB0059 * gone",
            "next       *",
        ]
    )


def test_a_suite_may_fail_on_swaps(swapped: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    result = swapped.run(
        "--graph-budget", "-o", "graph_budget_swaps=fail", "--graph-budget-report=graphs.json"
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "graph budget: 1 new place and no count that grew (2 dynamo graphs, 1 graph break)",
            "  + GB0124  Unsupported Tensor.item() call*",
            "  - GB0059 * gone",
            "  accept * --graph-budget-update test_it.py::test_swap",
        ]
    )
    monkeypatch.chdir(swapped.path)
    assert main(["check", "graphs.json"]) == 0
    swapped.pytester.makeini("[pytest]\ngraph_budget_swaps = fail\n")
    assert main(["check", "graphs.json"]) == 1
    swapped.pytester.makeini("[pytest]\ngraph_budget_swaps = no\n")
    assert main(["check", "graphs.json"]) == 2
