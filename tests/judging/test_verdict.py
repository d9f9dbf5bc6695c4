"""Verdicts: each row of the table in the documentation, their order, and what is never judged."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pytest_graphbreak.baseline.model import Entry, Expected, Override
from pytest_graphbreak.judging.cap import parse
from pytest_graphbreak.judging.measured import values
from pytest_graphbreak.judging.verdict import Verdict, judge
from pytest_graphbreak.model.budget import BaselinePlace, Cap, Values
from pytest_graphbreak.model.items import Break, Eager, Frame, Graph
from pytest_graphbreak.model.merging import record_of
from pytest_graphbreak.model.record import Frames, Record
from tests.judging.tools import expecting

pytestmark = pytest.mark.pure


def frame(code: str) -> Frame:
    return Frame("a.py", "f", 3, code)


def seen(
    dynamo: int = 0,
    *,
    xla: int | None = None,
    recompiles: int = 0,
    breaks: tuple[str, ...] = (),
    eager: tuple[str, ...] = (),
    reason: str = "why",
    id: str | None = "GB1",
    attempted: int | None = None,
    errors: tuple[str, ...] = (),
) -> Record:
    graphs = {"dynamo": dynamo} | ({} if xla is None else {"xla": xla})
    return Record(
        layers=tuple(graphs),
        graphs={layer: count for layer, count in graphs.items() if count},
        recompiles={"dynamo": recompiles} if recompiles else {},
        frames=Frames(dynamo if attempted is None else attempted, dynamo),
        breaks=tuple(Break("dynamo", reason, frame(code), id) for code in breaks),
        eager=tuple(Eager("dynamo", "skipped", frame(code)) for code in eager),
        errors=errors,
    )


def base(
    dynamo: int = 0,
    *,
    xla: int = 0,
    recompiles: int = 0,
    breaks: tuple[str, ...] = (),
    eager: tuple[str, ...] = (),
    torch: str = "2.9",
    profile: str = "cpu",
    overrides: dict[str, Override] | None = None,
) -> Expected:
    counts = {"dynamo": dynamo, "xla": xla}
    values = Values(
        graphs={layer: count for layer, count in counts.items() if count},
        recompiles={"dynamo": recompiles} if recompiles else {},
        breaks=tuple(BaselinePlace("a.py::f", code, 1, "why", "GB1") for code in breaks),
        eager=tuple(BaselinePlace("a.py::f", code) for code in eager),
    )
    entry = Entry("test_a.py", "test_a", None, "cpu", {"torch": torch}, values, overrides or {})
    return expecting(entry, profile)


@pytest.mark.parametrize(
    ("record", "expected", "verdict"),
    [
        (seen(1), base(1), "ok"),
        (seen(2), base(1), "over"),
        (seen(1), base(2), "improved"),
        (seen(0), base(1), "lost"),
        (seen(1, recompiles=1), base(1), "over"),
        (seen(1), base(1, recompiles=1), "improved"),
        (seen(1, breaks=("a",)), base(1), "over"),
        (seen(1, breaks=("b",)), base(1, breaks=("a",)), "changed"),
        (seen(1), base(1, breaks=("a",)), "improved"),
        (seen(1, eager=("a",)), base(1), "lost"),
        (seen(1, eager=("b",)), base(1, eager=("a",)), "changed"),
        (seen(1), base(1, eager=("a",)), "improved"),
        (seen(2, eager=("a",)), base(1), "over"),  # over comes before lost
        (seen(0, xla=3), base(1, xla=2), "over"),
        (seen(1, xla=0), base(1, xla=2), "lost"),
        (seen(1, xla=1), base(2, xla=2), "improved"),
        (seen(1, xla=3), base(2, xla=2), "over"),  # one layer's gain hides no other's growth
        (seen(0), base(0), "ok"),
        (seen(1, breaks=("a",)), base(1, breaks=("a",)), "ok"),
    ],
)
def test_against_a_baseline(record: Record, expected: Expected, verdict: str) -> None:
    assert judge(record, expected, gate=True, versions={"torch": "2.9.1"}).name == verdict


@pytest.mark.parametrize(
    ("record", "cap", "verdict"),
    [
        (seen(1), parse((1,), {}), "ok"),
        (seen(2), parse((1,), {}), "over"),
        (seen(1, xla=2), parse((1,), {}), "over"),
        (seen(5, xla=2), parse((), {"xla": 2}), "ok"),
        (seen(0, attempted=1), parse((1,), {}), "lost"),
        (seen(0, attempted=1), parse((0,), {}), "ok"),  # none was asked for
        (seen(0, attempted=1), parse((), {"breaks": 0}), "ok"),
        (seen(0), parse((1,), {}), "ok"),
        (seen(1, breaks=("a", "b")), parse((), {"breaks": 1}), "over"),
        (seen(1, recompiles=1), parse((), {"recompiles": 0}), "over"),
    ],
)
def test_against_a_marker(record: Record, cap: Cap, verdict: str) -> None:
    assert judge(record, None, cap, gate=True).name == verdict


def test_marker_and_baseline_are_both_enforced() -> None:
    assert judge(seen(2), base(2), parse((1,), {})).name == "over"
    assert judge(seen(2), base(1), parse((2,), {})).name == "over"
    assert judge(seen(2), base(2), parse((2,), {})).name == "ok"


def test_a_gate_that_could_not_see_is_an_error_whatever_it_counted() -> None:
    for expected, cap in ((None, None), (base(1), None), (None, parse((5,), {}))):
        assert judge(seen(1, errors=("blind",)), expected, cap, gate=True).name == "error"


def test_new_is_said_only_under_the_gate_and_only_where_something_was_attempted() -> None:
    assert judge(seen(1), gate=True).name == "new"
    assert judge(seen(0, attempted=1), gate=True).name == "new"
    assert judge(seen(1), gate=False).name == "none"
    assert judge(seen(0), gate=True).name == "none"
    assert judge(seen(1), None, parse((1,), {}), gate=True).name == "ok"


def test_a_cap_on_a_layer_that_was_not_there_is_not_judged_and_said() -> None:
    verdict = judge(seen(1), None, parse((), {"xla": 0}))
    assert (verdict.name, verdict.unseen) == ("ok", ("xla",))


def test_reasons_are_compared_only_with_the_same_minor_of_torch() -> None:
    record = seen(1, breaks=("a",), id="GB2")
    assert judge(record, base(1, breaks=("a",)), versions={"torch": "2.9.1"}).name == "changed"
    assert judge(record, base(1, breaks=("a",)), versions={"torch": "2.13.0"}).name == "ok"
    assert judge(record, base(1, breaks=("a",)), versions={}).name == "ok"


def test_a_profile_never_recorded_is_judged_where_the_plain_values_are() -> None:
    elsewhere = base(1, xla=2, profile="tt-n150")
    assert judge(seen(1), elsewhere).name == "ok"  # no xla layer here, and none expected
    assert judge(seen(2), elsewhere).name == "over"
    verdict = judge(seen(1, xla=2), base(1, profile="tt-n150"))  # xla: nothing to compare with
    assert (verdict.name, verdict.foreign) == ("ok", "cpu")


def test_an_override_is_a_recording_of_its_own() -> None:
    override = {"tt-n150": Override(Values(graphs={"xla": 3}))}
    there = base(1, xla=2, profile="tt-n150", overrides=override)
    assert judge(seen(1, xla=3), there).name == "ok"
    assert judge(seen(1, xla=4), there).name == "over"
    assert judge(seen(1), there).name == "lost"  # it recorded xla itself
    assert judge(seen(1, xla=3), there).foreign is None


def test_an_emptied_layer_is_reported_also_where_another_grew() -> None:
    verdict = judge(seen(0, xla=3), base(1, xla=2))
    assert (verdict.name, verdict.empties_a_layer) == ("over", True)
    assert not judge(seen(1, eager=("a",)), base(1)).empties_a_layer


counts = st.integers(0, 4)
places = st.lists(st.sampled_from("abcd"), unique=True, max_size=3).map(tuple)


@given(counts, counts, counts, places, places)
def test_a_record_is_ok_against_itself(
    dynamo: int, xla: int, recompiles: int, breaks: Any, eager: Any
) -> None:
    same: dict[str, Any] = {"xla": xla, "recompiles": recompiles, "breaks": breaks, "eager": eager}
    assert (
        judge(seen(dynamo, **same), base(dynamo, **same), versions={"torch": "2.9.1"}).name == "ok"
    )


@given(counts, counts, counts, counts)
def test_no_growth_ever_passes(was: int, now: int, was_xla: int, now_xla: int) -> None:
    verdict = judge(seen(now, xla=now_xla), base(was, xla=was_xla))
    grew = now > was or now_xla > was_xla
    lost = (now == 0 < was) or (now_xla == 0 < was_xla)
    assert verdict.fails == (grew or lost)


def held(*ops: int, layer: str = "dynamo", again: int = 0) -> Record:
    """A record of graphs with so many operations each."""
    graphs = tuple(
        Graph(
            layer, f"{number}/0", "entry" if number < len(ops) - again else "recompile", ops=count
        )
        for number, count in enumerate(ops)
    )
    return record_of(layer, graphs=len(ops), recompiles=again, graph_list=graphs)


def written(record: Record, torch: str = "2.9", **packages: str) -> Expected:
    return expecting(
        Entry("a.py", "test", None, "cpu", {"torch": torch}, values(record), packages=packages)
    )


@pytest.mark.parametrize(
    ("now", "was", "verdict"),
    [
        (held(12), held(12), "ok"),
        (held(11), held(12), "changed"),
        (held(13), held(12), "changed"),
        (held(2), held(12), "lost"),
        (held(90), held(100), "changed"),  # just a tenth
        (held(89), held(100), "lost"),
        (held(6), held(6, 6), "lost"),  # half of it, and no recompile less
        (held(12), held(6, 6), "improved"),
        (held(6, 2), held(12), "over"),
        (held(6), held(6, 6, again=1), "improved"),  # it was compiled twice, and is once
        (held(2), held(6, 6, again=1), "lost"),
        (held(3, 3), held(6, 6, again=1), "improved"),  # two parts of what was compiled twice
        (held(6), held(6, 6, 6, again=1), "lost"),  # one more is gone than the recompile
    ],
)
def test_captured_operations(now: Record, was: Record, verdict: str) -> None:
    assert judge(now, written(was), versions={"torch": "2.9.1"}).name == verdict


def test_each_layer_is_compared_by_the_version_of_its_compiler() -> None:
    was = written(held(12, layer="jax"))
    was = replace(was, plain_with={"jax": "0.10"})
    now = held(2, layer="jax")
    assert judge(now, was, versions={"jax": "0.10.2", "torch": "2.13"}).name == "lost"
    assert judge(now, was, versions={"jax": "0.12.0"}).name == "ok"
    assert judge(now, was, versions={"torch": "0.10"}).name == "ok"


@pytest.mark.parametrize(
    ("now", "was", "rules", "verdict"),
    [
        (held(2), written(held(12)), {}, "lost"),
        (held(2), written(held(12)), {"versions": {"torch": "2.10.0"}}, "ok"),
        (held(2), written(held(12)), {"versions": {}}, "ok"),
        (held(2), written(held(12)), {"ops": None}, "ok"),
        (held(2), written(held(12), timm="1.0"), {"packages": {"timm": "1.1"}}, "ok"),
        (held(2), written(held(12), timm="1.0"), {"packages": {"timm": "1.0"}}, "lost"),
        (seen(1), written(held(12)), {}, "ok"),  # its graphs are not known
        (held(2), written(seen(1)), {}, "ok"),
    ],
)
def test_operations_are_compared_where_they_can_be(
    now: Record, was: Expected, rules: dict[str, Any], verdict: str
) -> None:
    assert judge(now, was, **{"versions": {"torch": "2.9.0"}} | rules).name == verdict


def test_what_grew_says_how_much_is_compiled() -> None:
    verdict = judge(held(2, 2), written(held(2)), versions={"torch": "2.9.1"})
    assert verdict.name == "over"
    assert [(one.before, one.after) for one in verdict.ops] == [(2, 4)]


def left(verdict: Verdict) -> list[tuple[int, ...]]:
    """The places that left the compiler, by their number in the record."""
    return [one.items for one in verdict.changes if one.kind == "eager" and not one.total]


def test_code_that_leaves_the_compiler_is_lost_where_no_graph_is_allowed() -> None:
    """No graph is made of it, and a steady state it is not: a recompile limit, say."""
    record = seen(0, attempted=1, eager=("def f(x):",))
    verdict = judge(record, cap=parse((0,), {}))
    assert (verdict.name, left(verdict)) == ("lost", [(0,)])
    assert judge(seen(0, xla=0, attempted=0, eager=()), cap=parse((0,), {})).name == "ok"
    assert judge(seen(1, eager=("def f(x):",)), cap=parse((1,), {})).name == "ok"
    grown = judge(seen(1, eager=("def f(x):",)), cap=parse((0,), {}))
    assert (grown.name, left(grown)) == ("over", [(0,)])
