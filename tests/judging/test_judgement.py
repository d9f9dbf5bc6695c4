"""One judgement for the gate, a block, a script and a report that is read again."""

from __future__ import annotations

import pytest
from msgspec import structs

from pytest_graphbreak.baseline.model import Expected
from pytest_graphbreak.config.checkout import Rules
from pytest_graphbreak.judging.judgement import Case, Judgement, judgement
from pytest_graphbreak.judging.verdict import Verdict
from pytest_graphbreak.model.budget import Cap, Values
from pytest_graphbreak.model.items import Break
from pytest_graphbreak.model.json import entry_json
from pytest_graphbreak.model.record import Frames, Record
from pytest_graphbreak.model.report import Budget, TestReport
from tests.judging.tools import recorded

pytestmark = pytest.mark.pure

TWO = Record(layers=("dynamo",), graphs={"dynamo": 2}, frames=Frames(2, 2))
NONE = Record(layers=("dynamo",), frames=Frames(1))
BLIND = Record(errors=("Dynamo is disabled",))


def expected(**graphs: int) -> Expected:
    return recorded(Values(graphs=graphs), {"torch": "2.13"})


def test_whose_cap_it_is_is_no_part_of_the_report() -> None:
    said = entry_json(TestReport("t", "passed", cap=Cap(every=1, by="block")))["cap"]
    assert Cap(**said) == Cap(every=1)


def test_a_run_that_only_observes_fails_no_test() -> None:
    for record in (TWO, BLIND):
        assert not judgement(Case(record)).fails
        assert judgement(Case(record), Rules(gate=True)).fails
    assert judgement(Case(BLIND, cap=Cap(every=1))).fails


def test_what_is_excused_or_ungated_does_not_fail() -> None:
    gate = Rules(gate=True)
    assert not judgement(Case(TWO, excused=("new",)), gate).fails
    over = judgement(Case(TWO, expected(dynamo=1), excused=("new",)), gate)
    assert over.fails
    ungated = judgement(Case(TWO, expected(dynamo=1), ungated="slow"), gate)
    assert (ungated.verdict.name, ungated.fails, ungated.message) == ("none", False, None)
    assert ungated.to_dict()["ungated"] == "slow"


def test_what_is_written_passes_but_the_cap_is_judged() -> None:
    update = Rules(gate=True, update=True)
    written = judgement(Case(TWO, expected(dynamo=1)), update)
    assert (written.verdict.name, written.written, written.fails) == ("over", True, False)
    capped = judgement(Case(TWO, expected(dynamo=1), Cap(every=1)), update)
    assert (capped.verdict.name, capped.written, capped.fails) == ("over", False, True)
    missing = judgement(Case(TWO, cap=Cap(every=2)), Rules(gate=True, record=True))
    assert (missing.verdict.name, missing.written, missing.fails) == ("ok", True, False)
    assert not judgement(Case(NONE, cap=Cap(every=2)), Rules(gate=True, record=True)).written
    # A layer that had graphs and has none is never written by an update alone.
    assert judgement(Case(NONE, expected(dynamo=1)), update).fails
    assert judgement(Case(NONE, expected(dynamo=1)), Rules(gate=True, prune=True)).written


def test_a_prune_alone_writes_what_is_lost_and_no_growth() -> None:
    """What a run does not write is judged: neither a prune nor a record writes a new break."""
    broken = Record(layers=("dynamo",), breaks=(Break("dynamo", "print"),))
    prune = Rules(gate=True, prune=True)
    grown, lost = Case(broken, expected(dynamo=1)), Case(NONE, expected(dynamo=1))
    assert judgement(grown, prune).verdict.name == "over"
    assert judgement(grown, prune).fails
    assert judgement(grown, structs.replace(prune, update=True)).written
    assert judgement(lost, structs.replace(prune, record=True)).fails


# what it was judged by, as the report tells it


def test_the_smaller_one_holds_on_each_layer() -> None:
    cap = Cap(layers={"dynamo": 2, "xla": 9, "tt": 1})  # tt was not there
    record = Record(layers=("dynamo", "xla"))
    budget = Judgement(Case(record, expected(dynamo=3, xla=4), cap), Verdict("ok")).budget
    assert budget == Budget({"dynamo": 2, "xla": 4})
    assert Judgement(Case(record, cap=cap), Verdict("ok")).budget == Budget({"dynamo": 2, "xla": 9})
    without = Judgement(Case(record), Verdict("none"))
    assert (without.budget, without.baseline) == (None, None)
