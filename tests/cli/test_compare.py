"""``graphbreak compare``: two runs beside each other, by cause."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Desk
from tests.hostile import a_hostile_report
from tests.making import a_report, a_test


def test_causes_come_first_and_then_the_tests(desk: Desk) -> None:
    desk.report("before.json", a_report(a_test(), a_test("tests/test_b.py::gone")))
    desk.report("after.json", a_report(a_test(dynamo=2), a_test("tests/test_b.py::new")))
    said = desk.run("compare", "before.json", "after.json")
    assert said.code == 0
    assert said.out.split("\n") == [
        "before  2 tests on cpu; torch 2.13.0, python 3.11.7",
        "after   2 tests on cpu; torch 2.13.0, python 3.11.7",
        "",
        "1 test compared, 1 with more graphs; dynamo 1 -> 2",
        "",
        "new: 1 place",
        "  + GB0124  Unsupported Tensor.item() call   1 test, +1 dynamo graph",
        "      models/head.py:10 in Head.forward",
        "          if scores[0].item():",
        "      try: keep the value a tensor, or torch._dynamo.config.capture_scalar_outputs = True",
        "      in tests/test_a.py::test_b",
        "",
        "tests with other counts: 1 test",
        "  dynamo 1 -> 2   tests/test_a.py::test_b",
        "",
        "only before: 1 test",
        "  tests/test_b.py::gone   on cpu",
        "",
        "only after: 1 test",
        "  tests/test_b.py::new   on cpu",
        "",
    ]


def test_several_reports_a_side(desk: Desk) -> None:
    desk.report("b/1.json", a_report(a_test("t.py::a")))
    desk.report("b/2.json", a_report(a_test("t.py::b")))
    desk.report("after.json", a_report(a_test("t.py::a"), a_test("t.py::b", 2)))
    by_name = desk.run("compare", "--before", "b/1.json", "b/2.json", "--after", "after.json")
    assert "2 tests compared, 1 with more graphs; dynamo 2 -> 3" in by_name.out
    assert desk.run("compare", "b", "after.json").out == by_name.out


@pytest.mark.parametrize(
    ("after", "code"), [(a_test(), 0), (a_test(dynamo=2), 1), (a_test("t.py::x"), 1)]
)
def test_the_exit_code_is_for_scripts_that_ask(after: object, code: int, desk: Desk) -> None:
    desk.report("before.json", a_report(a_test()))
    desk.report("after.json", a_report(after))  # type: ignore[arg-type]
    assert desk.run("compare", "before.json", "after.json").code == 0
    assert desk.run("compare", "--exit-code", "before.json", "after.json").code == code


@pytest.mark.parametrize(
    "args",
    [
        (),
        ("a.json",),
        ("a.json", "b.json", "c.json"),
        ("--before", "a.json"),
        ("a", "--after", "b"),
    ],
)
def test_it_says_how_both_sides_are_named(args: tuple[str, ...], desk: Desk) -> None:
    said = desk.run("compare", *args)
    assert said.code == 2
    assert "name two reports, BEFORE and AFTER" in said.err


def test_a_bad_report_is_named(desk: Desk) -> None:
    desk.report("a.json", a_report(a_test()))
    (desk.path / "b.json").write_text("[]")
    said = desk.run("compare", "a.json", "b.json")
    assert said.code == 2
    assert "b.json: the report: a list where a mapping is expected" in said.err


def test_hostile_text_on_the_terminal(desk: Desk) -> None:
    desk.report("a.json", a_report())
    desk.report("b.json", a_hostile_report())
    desk.report("c.json", a_report(a_test()))
    for pair in (("a.json", "b.json"), ("b.json", "b.json"), ("b.json", "c.json")):
        said = desk.run("compare", *pair)
        assert said.code == 0
        for line in said.out.split("\n"):
            assert line.isprintable()
            assert not line.lstrip().startswith("::")
            assert "##[" not in line
