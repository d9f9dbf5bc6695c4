"""The first line of a failure and the table below it: what moved, and whose number it passed."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pytest_graphbreak.judging.verdict import Verdict
from pytest_graphbreak.model.differences import Difference
from pytest_graphbreak.model.items import Break
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.report.counts import changed_counts, graphs_and_breaks, headline
from tests.changes import total

pytestmark = pytest.mark.pure

BOTH = Record(layers=("dynamo", "xla"), graphs={"dynamo": 2, "xla": 4})
BROKEN = Record(layers=("dynamo",), graphs={"dynamo": 2}, breaks=(Break("dynamo", "print"),) * 2)
NONE = Record(layers=("dynamo", "xla"))


def step(now: int, allowed: int, kind: str = "graph", by: str = "baseline") -> Difference:
    layer = None if kind in ("break", "eager") else "xla"
    return total(kind, layer, allowed, now, by)


@pytest.mark.parametrize(
    ("moved", "words"),
    [
        (step(4, 1), "4 xla graphs, the baseline allows 1 (+3)"),
        (step(1, 0), "1 xla graph, the baseline allows 0 (+1)"),
        (step(2, 1, "recompile"), "2 xla recompiles, the baseline allows 1 (+1)"),
        (step(1, 0, "recompile"), "1 xla recompile, the baseline allows 0 (+1)"),
        (step(3, 0, "break"), "3 graph breaks, the baseline allows 0 (+3)"),
        (step(1, 0, "eager"), "1 eager fallback, the baseline allows 0 (+1)"),
    ],
)
def test_what_moved_and_whose_number_it_passed(moved: Difference, words: str) -> None:
    assert str(headline(Verdict("over", (moved,)), BOTH)) == f"graph budget: {words}"


def test_what_moved_most_comes_first() -> None:
    dynamo = total(after=9)
    assert "9 dynamo graphs" in str(headline(Verdict("over", (step(4, 1), dynamo)), BOTH))
    equal = total(after=4)
    assert "4 xla graphs" in str(headline(Verdict("over", (equal, step(4, 1))), BOTH))


def test_totals_of_what_made_nothing() -> None:
    assert graphs_and_breaks(NONE) == "0 xla graphs"
    assert graphs_and_breaks(Record()) == "nothing was compiled"


def test_a_line_has_each_count_once_and_what_is_gone_first() -> None:
    verdict = Verdict(
        "over",
        (
            *(step(4, 1), step(2, 0, "recompile"), step(4, 1), step(4, 2, by="marker")),
            *(total(after=0), step(2, 12, "ops")),
            replace(step(1, 2, "break"), verdict="improved"),
        ),
    )
    (line,) = changed_counts(verdict, BOTH, ops=verdict.ops)
    assert str(line) == (
        "  dynamo 1 -> 0, xla 1 -> 4, xla recompiles 0 -> 2, breaks 2 -> 1, "
        "xla 4 where the marker allows 2, captured operations 12 -> 2 (xla)"
    )


def test_layers_whose_operations_fell_alike_are_named_together() -> None:
    fewer = [total("ops", layer, before=12, after=2) for layer in ("dynamo", "xla")]
    verdict = Verdict("lost", tuple(fewer))
    (line,) = changed_counts(verdict, BOTH, ops=verdict.ops)
    assert str(line) == "  captured operations 12 -> 2 (dynamo, xla)"
