"""``graphbreak compare``: what changed between two runs, by cause; what is not compared."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_graphbreak.artifacts.incoming import parse
from pytest_graphbreak.artifacts.union import Union, union
from pytest_graphbreak.cli import compare
from pytest_graphbreak.cli.compare import RunComparison
from pytest_graphbreak.report.markdown import COMMENT
from pytest_graphbreak.text.output import plain_text
from tests.cli.conftest import Workspace
from tests.reports import Data, a_break, a_graph, a_report, a_test, place

pytestmark = pytest.mark.pure

T = "tests/test_a.py::test_b"
BREAK = place("transformers/models/bart.py", "Decoder.forward", 9, "if mask.any():")


def read(report: Data) -> Union:
    return union([parse("a.json", report)])


def compared(before: Data, after: Data) -> RunComparison:
    return compare.compare(read(before), read(after))


def text(before: Data, after: Data) -> str:
    one, other = read(before), read(after)
    return plain_text(compare.lines(one, other, compare.compare(one, other)))


def broken(nodeid: str = T, where: Data = BREAK, **changes: Any) -> Data:
    """A test whose one function breaks once: an entry, and what follows the break."""
    item = a_break(where, **changes)
    graphs = [
        a_graph("0/0", ops=6),
        a_graph("1/0", "break", ops=6, where=where, reason=item["reason"]),
    ]
    return a_test(
        nodeid, graphs={"dynamo": 2}, ops={"dynamo": 12}, breaks=[item], graph_list=graphs
    )


def test_one_cause_in_many_tests_is_one_cause() -> None:
    names = [f"{T}[{number}]" for number in range(61)]
    before, after = a_report(*map(a_test, names)), a_report(*map(broken, names))
    result = compared(before, after)
    assert [(cause.kind, len(cause.tests)) for cause in result.causes] == [("break", 61)]
    assert result.differs
    shown = text(before, after)
    assert "61 tests compared, 61 with more graphs" in shown
    assert shown.count("if mask.any():") == 1
    assert "in 61 tests; one of them:" in shown
    assert "  dynamo 1 -> 2, breaks 0 -> 1   tests/test_a.py::test_b[60]" in shown
    back = compared(after, before)
    assert [cause.items for cause in back.causes] == [()]


def test_line_numbers_are_no_difference() -> None:
    moved = a_report(broken(where=BREAK | {"line": 99}))
    assert not compared(a_report(broken()), moved).differs


def test_tests_of_one_side_and_tests_that_did_not_run_are_listed() -> None:
    before = a_report(a_test("t.py::gone"), a_test("t.py::failed"), a_test(T))
    after = a_report(
        a_test("t.py::new"), a_test("t.py::failed", outcome="failed", failed_by="test"), a_test(T)
    )
    result = compared(before, after)
    assert (result.only_before, result.only_after) == (["t.py::gone"], ["t.py::new"])
    assert result.unequal == ["t.py::failed   passed, failed"]
    assert result.compared == 1
    assert result.differs


def test_a_test_that_is_gone_on_several_profiles_is_named_with_them() -> None:
    names = ("cpu", "cuda")
    reports = [
        parse(f"{at}.json", a_report(a_test("t.py::gone"), a_test(T), profile=at)) for at in names
    ]
    result = compare.compare(union(reports), read(a_report(a_test(T), profile="cpu")))
    assert {"t.py::gone   on cpu", "t.py::gone   on cuda"} <= set(result.only_before)


def test_the_only_profiles_that_differ_are_of_one_machine() -> None:
    before, after = a_report(a_test(T), profile="cpu-2.9"), a_report(broken(), profile="cpu-2.13")
    assert compared(before, after).compared == 1
    assert compared(before, after).only_before == []


def test_settings_that_were_not_the_same_are_named() -> None:
    before = a_report(a_test(T, settings={"dynamo.verbose": "True", "grad": "off"}))
    after = a_report(a_test(T, settings={"grad": "off"}))
    assert compared(before, after).settings == {"dynamo.verbose"}


def test_a_comment_fits_on_github() -> None:
    names = [f"{T}[{number}{'x' * 900}]" for number in range(100)]
    one, other = read(a_report(*map(a_test, names))), read(a_report(*map(broken, names)))
    written = compare.comment(one, other, compare.compare(one, other))
    assert written.startswith(
        "<!-- pytest-graphbreak page -->\n### Two runs: 100 tests compared, 100 with more graphs\n"
    )
    assert "left out for its length" in written
    assert len(written.encode()) <= COMMENT


def test_a_note_that_is_longer_than_a_comment_is_cut() -> None:
    breaks = [a_break(place(code=f"if x > {number}:" + "@" * 300)) for number in range(300)]
    contradicting = [a_report(a_test()), a_report(a_test(breaks=breaks))]
    one = union([parse(f"{number}.json", report) for number, report in enumerate(contradicting)])
    other = read(a_report(broken()))
    written = compare.comment(one, other, compare.compare(one, other))
    assert "more characters)" in written
    assert "if mask.any():" in written
    assert len(written.encode()) <= COMMENT


def test_a_directory_of_reports_is_one_run(workspace: Workspace) -> None:
    workspace.report("b/1.json", a_report(a_test("t.py::a")))
    workspace.report("b/2.json", a_report(a_test("t.py::b")))
    workspace.report("after.json", a_report(a_test("t.py::a"), a_test("t.py::b", 2)))
    said = workspace.run("compare", "b", "after.json")
    assert "2 tests compared, 1 with more graphs" in said.out
    assert "  dynamo 1 -> 2, breaks 0 -> 1   t.py::b" in said.out


@pytest.mark.parametrize(
    ("after", "code"), [(a_test(), 0), (a_test(dynamo=2), 1), (a_test("t.py::x"), 1)]
)
def test_the_exit_code_is_for_scripts_that_ask(
    after: object, code: int, workspace: Workspace
) -> None:
    workspace.report("before.json", a_report(a_test()))
    workspace.report("after.json", a_report(after))  # type: ignore[arg-type]
    assert workspace.run("compare", "before.json", "after.json").code == 0
    assert workspace.run("compare", "--exit-code", "before.json", "after.json").code == code
