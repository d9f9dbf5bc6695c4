"""What makes tests red, each cause once: by place, with sums that are right."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.report.root_causes import (
    UNREACHED,
    RootCauses,
    by_nodeid,
    cause_lines,
    headline,
    lines,
    root_causes,
)
from tests.reports import Data, a_break, a_graph, a_test, as_tests, known, over, place

pytestmark = pytest.mark.pure

PRINT, ITEM = place(line=11, code="print(scores)"), place(line=30, code="x.item()")


def red(nodeid: str, *where: Data, was: int = 1, **changes: Any) -> Data:
    """A test with one graph more for each place."""
    return over(
        nodeid,
        was,
        was + len(where),
        breaks=[a_break(frame, id="GB0059", reason="Failed to trace") for frame in where],
        **changes,
    )


def causes(*tests: Data) -> RootCauses:
    return root_causes(by_nodeid(as_tests(*tests)))


def test_one_print_behind_220_red_tests_is_one_finding() -> None:
    found = causes(
        *(red(f"t.py::test[{number}]", PRINT) for number in range(219)),
        red("t.py::much", PRINT, PRINT | {"code": "print(more)"}),
        a_test("t.py::fine", 3, verdict="ok"),
        a_test("t.py::own", 3, outcome="failed", failed_by="test"),
    )
    assert headline(found) == "2 places explain 220 red tests"
    first, second = found.places
    assert (len(first.tests), first.growth, first.tests[0]) == (220, 221, "t.py::much")
    assert (second.tests, second.growth) == (("t.py::much",), 2)
    assert first.where == Frame("models/head.py", "Head.forward", 11, "print(scores)")
    assert (found.without, found.firsts) == ((), ("t.py::much",))


def test_a_place_is_known_by_its_line_and_not_by_the_number_of_the_line() -> None:
    moved = PRINT | {"line": 40, "code": " print(scores)  "}
    found = causes(red("t.py::one", PRINT), red("t.py::two", moved), red("t.py::three", ITEM))
    assert [cause.tests for cause in found.places] == [("t.py::one", "t.py::two"), ("t.py::three",)]


def test_what_the_baseline_knows_makes_nothing_red() -> None:
    test = red("t.py::test", PRINT, ITEM, was=2)
    test["baseline"]["breaks"] = [known(PRINT)]
    (cause,) = causes(test).places
    assert cause.where.code == "x.item()"


def test_what_fell_with_a_break_is_no_cause_of_its_own() -> None:
    caller = place("models/m.py", "M.forward", 9, "self.head(x)")
    test = red("t.py::test", PRINT)
    test["breaks"][0]["stack"] = [caller, PRINT]
    test["eager"] = [{"layer": "dynamo", "reason": "Failed to trace", "count": 1, "where": caller}]
    assert len(causes(test).all) == 1


def test_a_test_with_two_causes_counts_once() -> None:
    found = causes(
        red("t.py::both", PRINT, ITEM),
        red("t.py::one", PRINT),
        a_test("t.py::new", 2, verdict="new", outcome="failed", failed_by="gate"),
        a_test("t.py::blind", verdict="error", failed_by="gate", errors=["Dynamo is disabled"]),
        a_test("t.py::blind2", verdict="error", failed_by="gate", errors=["Dynamo is disabled"]),
    )
    assert headline(found) == "2 places explain 2 of 5 red tests"
    assert [(cause.reason, len(cause.tests)) for cause in found.without] == [
        ("could not see: Dynamo is disabled", 2),
        ("no baseline", 1),
    ]


LOST = over(breaks=[], graph_list=[], graphs={}, verdict="lost")


@pytest.mark.parametrize(
    ("test", "words"),
    [
        (LOST, "no tensor operation was found to compile"),
        (
            LOST | {"frames": {"attempted": 0, "compiled": 0}},
            "nothing was compiled",
        ),
        (
            over(now=1, breaks=[], verdict="lost"),
            "fewer captured operations",
        ),
        (over(breaks=[], graph_list=[]), "more dynamo graphs, no place is known"),
        (over(now=1, verdict="improved"), "improved: another baseline would hold"),
    ],
)
def test_what_no_place_explains_is_reported_by_what_is_known(test: Data, words: str) -> None:
    found = causes(test, red("t.py::other", PRINT))
    assert [cause.reason for cause in found.without] == [words]
    assert headline(found) == "1 place explains 1 of 2 red tests"


def test_a_function_that_is_compiled_no_longer_is_a_place() -> None:
    gone = {"kind": "graph", "layer": "dynamo", "cause": "entry", "before": 1, "after": 0}
    where = {"file": "m.py", "function": "M.head"}
    fell = {"kind": "ops", "layer": "dynamo", "total": True, "before": 12, "after": 4}
    changes = [{**fell, "verdict": "lost"}, {**gone, "where": where, "verdict": "lost"}]
    tests = [
        over(name, now=1, verdict="lost", breaks=[], changes=changes)
        for name in ("t.py::a", "t.py::b")
    ]
    (cause,) = causes(*tests).places
    assert (cause.where, cause.tests) == (Frame("m.py", "M.head"), ("t.py::a", "t.py::b"))
    assert list(map(str, cause_lines(cause))) == [
        "  - no longer compiled",
        "      m.py in M.head",
        f"      fix: {UNREACHED}",
        "      in 2 tests; one of them:",
        "          t.py::a",
    ]


def test_a_function_more_is_a_place() -> None:
    functions = [a_graph("0/0"), a_graph("1/0", where=ITEM)]
    known_one = over()["baseline"] | {"ops": {"dynamo": 12}, "causes": [], "entries": []}
    test = over(now=2, breaks=[], graph_list=functions[1:] * 2, baseline=known_one)
    (cause,) = causes(test).places
    assert cause.where.code == "x.item()"
    assert cause.generalize().title == "entry   a function that was not compiled before"


def test_a_device_graph_is_a_place_on_whichever_layer_it_is() -> None:
    def split(nodeid: str, layer: str) -> Data:
        graphs = [a_graph("1", "fx", layer), a_graph("2", "split", layer, where=ITEM, reason="cpu")]
        return over(nodeid, breaks=[], layers=[layer], graphs={layer: 2}, graph_list=graphs) | {
            "baseline": over()["baseline"] | {"graphs": {layer: 1}},
        }

    (cause,) = causes(split("t.py::xla", "xla"), split("t.py::tt", "tt")).places
    assert cause.tests == ("t.py::tt", "t.py::xla")
    assert cause.generalize().title == "split   cpu"


def test_a_marker_alone_makes_every_break_a_cause() -> None:
    cap = {"every": 1, "layers": {}, "recompiles": None, "breaks": None}
    test = red("t.py::test", PRINT, baseline=None, cap=cap, budget={"graphs": {"dynamo": 1}})
    (cause,) = causes(test).places
    assert (cause.where.code, cause.growth) == ("print(scores)", 1)


# the lines


def test_lines_of_causes() -> None:
    found = causes(red("t.py::both", PRINT, ITEM), red("t.py::one", PRINT))
    assert list(map(str, lines(found))) == [
        "2 places explain 2 red tests",
        "  + GB0059  Failed to trace",
        "      models/head.py:11 in Head.forward",
        "          print(scores)",
        "      fix: Set capture_scalar_outputs",
        "      in 2 tests, which make 3 graphs more; the one that grew most:",
        "          t.py::both",
        "  + GB0059  Failed to trace",
        "      models/head.py:30 in Head.forward",
        "          x.item()",
        "      fix: Set capture_scalar_outputs",
        "      in 1 test, which makes 2 graphs more:",
        "          t.py::both",
        "",
    ]


def test_one_red_test_is_reported_by_its_failure_alone() -> None:
    assert list(map(str, lines(causes(red("t.py::one", PRINT))))) == []


def test_lines_are_bounded() -> None:
    many = [red(f"t.py::test[{n}]", place(line=n, code=f"x{n}" * 1000)) for n in range(1, 500)]
    shown = list(map(str, lines(causes(*many))))
    assert shown[-2:] == ["  ... and 489 more causes", ""]
    assert len(shown) < 70
    assert max(map(len, shown)) < 500
