"""What makes tests red, each cause once: by place, with sums that are right."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_graphbreak.model.items import Frame
from pytest_graphbreak.report.root_causes import (
    RootCauses,
    by_nodeid,
    headline,
    root_cause_lines,
    root_causes,
)
from tests.reports import Data, a_break, a_graph, a_test, as_tests, over, place

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
    assert (len(first.tests), first.growth, first.tests[0]) == (220, 219, "t.py::much")
    # Which of its two breaks made which graph is not known.
    assert (second.tests, second.growth) == (("t.py::much",), 0)
    assert first.where == Frame("models/head.py", "Head.forward", 11, "print(scores)")
    assert (found.without, found.firsts) == ((), ("t.py::much",))


def test_a_place_is_known_by_its_line_and_not_by_the_number_of_the_line() -> None:
    moved = PRINT | {"line": 40, "code": " print(scores)  "}
    found = causes(red("t.py::one", PRINT), red("t.py::two", moved), red("t.py::three", ITEM))
    assert [cause.tests for cause in found.places] == [("t.py::one", "t.py::two"), ("t.py::three",)]


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
        (LOST | {"frames": {"attempted": 0, "compiled": 0}}, "nothing was compiled"),
        (over(now=1, breaks=[], verdict="lost"), "fewer captured operations"),
        (over(breaks=[], graph_list=[]), "more dynamo graphs, no place is known"),
        (over(now=1, verdict="improved"), "improved: another baseline would hold"),
    ],
)
def test_what_no_place_explains_is_reported_by_what_is_known(test: Data, words: str) -> None:
    found = causes(test, red("t.py::other", PRINT))
    assert [cause.reason for cause in found.without] == [words]
    assert headline(found) == "1 place explains 1 of 2 red tests"


def test_a_device_graph_is_a_place_on_whichever_layer_it_is() -> None:
    def split(nodeid: str, layer: str) -> Data:
        graphs = [a_graph("1", "fx", layer), a_graph("2", "split", layer, where=ITEM, reason="cpu")]
        return over(nodeid, breaks=[], layers=[layer], graphs={layer: 2}, graph_list=graphs) | {
            "baseline": over()["baseline"] | {"graphs": {layer: 1}},
        }

    (cause,) = causes(split("t.py::xla", "xla"), split("t.py::tt", "tt")).places
    assert cause.tests == ("t.py::tt", "t.py::xla")
    assert cause.generalize().title == "split   cpu"


# the lines


def test_lines_are_bounded() -> None:
    many = [red(f"t.py::test[{n}]", place(line=n, code=f"x{n}" * 1000)) for n in range(1, 500)]
    shown = list(map(str, root_cause_lines(causes(*many))))
    assert shown[-2:] == ["  ... and 489 more causes", ""]
    assert len(shown) < 70
    assert max(map(len, shown)) < 500
