"""Executions and reads against a baseline and a cap: over, lost, improved, changed."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from pytest_graphbreak.judging import cap
from pytest_graphbreak.judging.findings import findings_of_failure
from pytest_graphbreak.judging.measured import values
from pytest_graphbreak.judging.verdict import Verdict, judge
from pytest_graphbreak.model.budget import Cap, Values
from pytest_graphbreak.model.items import Frame, Graph, LineRuns
from pytest_graphbreak.model.merging import merge
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.versions import COMPILERS
from tests.judging.tools import recorded

pytestmark = pytest.mark.pure

HERE = Frame("model.py", "Stack.forward", 12, "torch_xla.sync()")
VERSIONS = dict.fromkeys(COMPILERS, "2.9.1")


def xla(executions: int, reads: int = 0, where: Frame = HERE) -> Record:
    runs = (LineRuns("xla", "sync", "", executions, where),) if executions else ()
    read = (LineRuns("xla", "item", count=reads, where=HERE),) if reads else ()
    return Record(
        layers=("xla",),
        graphs={"xla": 1},
        graph_list=(Graph("xla", "1", "sync", where=HERE),),
        executions={"xla": executions},
        reads={"xla": reads},
        execution_list=runs,
        read_list=read,
    )


def dynamo(times: int, ops: int = 12, graphs: int = 1) -> Record:
    names = [f"{number}/0" for number in range(graphs)]
    return Record(
        layers=("dynamo",),
        graphs={"dynamo": graphs},
        graph_list=tuple(Graph("dynamo", name, "entry", ops=ops // graphs) for name in names),
        executions={"dynamo": times * graphs},
        execution_list=tuple(LineRuns("dynamo", "call", name, times, HERE) for name in names),
    )


def against(before: Record, after: Record, **rules: Any) -> Verdict:
    expected = recorded(values(before), VERSIONS)
    return judge(after, expected, gate=True, versions=VERSIONS, **rules)


def test_more_executions_are_over_with_the_line() -> None:
    assert against(xla(3), xla(36)).name == "changed"
    verdict = against(xla(3), xla(36), runs="fail")
    assert verdict.name == "over"
    (total,) = verdict.over
    assert (total.kind, total.layer, total.before, total.after) == ("execution", "xla", 3, 36)
    (place,) = [one for one in verdict.changes if not one.total]
    assert (place.where, place.cause, place.after) == (HERE, "sync", 36)


def test_lines_that_ran_as_often_before_are_left_out() -> None:
    other = replace(HERE, line=20, function="train")
    before, new = xla(3, where=other), merge([xla(3, where=other), replace(xla(33), graphs={})])
    verdict = against(before, replace(new, graph_list=before.graph_list), runs="fail")
    assert verdict.name == "over"
    assert [one.where for one in verdict.changes if not one.total] == [HERE]
    more = against(before, xla(5, where=other))
    assert [(one.before, one.after) for one in more.changes if not one.total] == [(3, 5)]


def test_only_a_single_line_of_dynamo_is_known_to_have_run_as_often_as_the_baseline_says() -> None:
    """A baseline has Dynamo's executions, and not the lines of a test that call its graphs."""
    for graphs, before in ((1, 2), (2, None)):
        verdict = against(dynamo(2, graphs=graphs), dynamo(5, graphs=graphs))
        places = [change for change in verdict.changes if not change.total]
        assert [(place.before, place.after) for place in places] == [(before, 5)] * graphs
        findings = findings_of_failure(verdict, dynamo(5, graphs=graphs))
        words = "3 executions: " if before else "5 executions in all: "
        assert all(finding.reason.startswith(words) for finding in findings)


@pytest.mark.parametrize("was", [0, 1])
def test_more_reads_are_over(was: int) -> None:
    assert against(xla(3, was), xla(3, 6), runs="fail").name == "over"
    assert against(xla(3, was), xla(3, 6)).name == "changed"


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        (xla(3, 6), xla(3, 1), "improved"),
        (dynamo(4), dynamo(1), "improved"),
        (dynamo(2, graphs=2), dynamo(2), "improved"),
        (dynamo(4), dynamo(4), "ok"),
        (xla(36), xla(3), "improved"),
        (xla(6, 3), xla(3), "improved"),
        # Less is captured, which is no gain, however seldom it runs.
        (dynamo(4, 100), dynamo(1, 50), "lost"),
        # As many graphs that capture less, within what captured operations may fall by.
        (dynamo(2, 100), dynamo(2, 95), "changed"),
    ],
)
def test_fewer_executions_are_improved_unless_less_is_captured(
    before: Record, after: Record, name: str
) -> None:
    assert against(before, after).name == name


def test_a_baseline_without_them_is_judged_as_before() -> None:
    known = recorded(Values(graphs={"xla": 1}), VERSIONS)
    assert judge(xla(36, 9), known, gate=True, versions=VERSIONS).name == "ok"
    assert against(xla(3), replace(xla(36), executions={}, reads={})).name == "ok"
    assert against(xla(3), xla(36), runs="off").name == "ok"


def test_limits_in_code_hold_every_layer_or_one() -> None:
    record = merge([dynamo(3), xla(3, 2)])

    def judged(**limits: Any) -> list[tuple[str, str | None]]:
        verdict = judge(record, cap=cap.parse((), limits))
        return [(one.kind, one.layer) for one in verdict.over]

    assert judged(executions=3, reads=2) == []
    assert judged(executions=2) == [("execution", "dynamo"), ("execution", "xla")]
    assert judged(executions={"xla": 2}, reads=0) == [("execution", "xla"), ("read", "xla")]


@pytest.mark.parametrize("wrong", [-1, True, {"gpu": 1}, {}, {"xla": -1}, "2"])
def test_a_limit_that_is_no_count_is_refused(wrong: Any) -> None:
    with pytest.raises(cap.CapError, match="executions"):
        cap.parse((), {"executions": wrong})


def test_a_limit_travels_in_a_report() -> None:
    limits = cap.parse((2,), {"executions": {"xla": 2}, "reads": 0})
    assert Cap.from_dict(limits.to_dict()) == limits
