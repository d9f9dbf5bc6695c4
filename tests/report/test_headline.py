"""The first line of a failure and the table below it: what moved, and whose number it passed."""

from __future__ import annotations

import pytest

from pytest_graphbreak.judging.verdict import Step, Verdict
from pytest_graphbreak.model.record import Break, Record
from pytest_graphbreak.report.headline import counts, headline, operations, totals

BOTH = Record(layers=("dynamo", "xla"), graphs={"dynamo": 2, "xla": 4})
BROKEN = Record(layers=("dynamo",), graphs={"dynamo": 2}, breaks=(Break("dynamo", "print"),) * 2)
NONE = Record(layers=("dynamo", "xla"))


def step(now: int, allowed: int, what: str = "graphs", by: str = "baseline") -> Step:
    layer = None if what in ("breaks", "eager") else "xla"
    return Step(what, layer, allowed, now, by)


@pytest.mark.parametrize(
    ("moved", "words"),
    [
        (step(4, 1), "4 xla graphs, the baseline allows 1 (+3)"),
        (step(1, 0), "1 xla graph, the baseline allows 0 (+1)"),
        (step(2, 1, "recompiles"), "2 xla recompiles, the baseline allows 1 (+1)"),
        (step(1, 0, "recompiles"), "1 xla recompile, the baseline allows 0 (+1)"),
        (step(3, 0, "breaks"), "3 breaking places, the baseline allows 0 (+3)"),
        (step(1, 0, "eager"), "1 place left the compiler, the baseline allows 0 (+1)"),
        (step(4, 1, by="marker"), "4 xla graphs, the marker allows 1 (+3)"),
        (step(4, 1, by="block"), "4 xla graphs, the block allows 1 (+3)"),
        (step(4, 1, by="option"), "4 xla graphs, --max-graphs allows 1 (+3)"),
    ],
)
def test_what_moved_and_whose_number_it_passed(moved: Step, words: str) -> None:
    assert headline(Verdict("over", over=(moved,)), BOTH) == f"graph budget: {words}"


def test_what_moved_most_comes_first() -> None:
    dynamo = Step("graphs", "dynamo", 1, 9, "baseline")
    assert "9 dynamo graphs" in headline(Verdict("over", over=(step(4, 1), dynamo)), BOTH)
    equal = Step("graphs", "dynamo", 1, 4, "baseline")
    assert "4 xla graphs" in headline(Verdict("over", over=(equal, step(4, 1))), BOTH)


@pytest.mark.parametrize(
    ("verdict", "record", "words"),
    [
        (Verdict("new"), BROKEN, "no baseline for this test (2 dynamo graphs, 2 breaking places)"),
        (
            Verdict("lost", lost=(step(0, 1),)),
            NONE,
            "no xla graph any more, the baseline has 1 (nothing was compiled)",
        ),
        (
            Verdict("lost", lost=(step(2, 12, "ops"),)),
            BOTH,
            "2 captured operations left in xla graphs, the baseline has 12 (-10)",
        ),
        (
            Verdict("improved", fewer=(step(1, 4),)),
            BOTH,
            "1 xla graph, the baseline has 4 (-3)",
        ),
        (Verdict("changed"), BOTH, "changed, 2 dynamo graphs, 4 xla graphs"),
    ],
)
def test_by_verdict(verdict: Verdict, record: Record, words: str) -> None:
    assert headline(verdict, record) == f"graph budget: {words}"


def test_totals_of_what_made_nothing() -> None:
    assert totals(NONE) == "0 xla graphs"
    assert totals(Record()) == "nothing was compiled"


def test_the_table_has_each_count_once_and_what_is_gone_first() -> None:
    verdict = Verdict(
        "over",
        over=(step(4, 1), step(2, 0, "recompiles"), step(4, 1), step(4, 2, by="marker")),
        lost=(Step("graphs", "dynamo", 1, 0, "baseline"), step(2, 12, "ops")),
        fewer=(step(1, 2, "breaks"),),
    )
    assert list(counts(verdict, BOTH)) == [
        "  dynamo               1 -> 0    -1",
        "  xla                  1 -> 4    +3",
        "  xla recompiles       0 -> 2    +2",
        "  xla                  2 -> 4    +2   (marker)",
        "  breaks               2 -> 1    -1",
    ]


def test_layers_whose_operations_moved_alike_share_a_line() -> None:
    dynamo = Step("ops", "dynamo", 12, 2, "baseline")
    verdict = Verdict("lost", ops=(dynamo, step(2, 12, "ops"), Step("ops", "tt", 2, 4, "baseline")))
    assert list(operations(verdict, more=False)) == [
        "  captured operations 12 -> 2   (dynamo, xla)",
        "    less of the program is compiled now",
    ]
    assert list(operations(verdict, more=True)) == [
        "  captured operations 2 -> 4   (tt)",
        "    more of the program is compiled now",
    ]
