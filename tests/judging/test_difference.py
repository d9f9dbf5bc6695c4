"""What is otherwise than it was: totals, places, and what happened with each."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from msgspec.structs import replace

from pytest_graphbreak.baseline.model import Expected
from pytest_graphbreak.judging.difference import diff, observed_changes
from pytest_graphbreak.judging.measured import values
from pytest_graphbreak.judging.verdict import judge
from pytest_graphbreak.model.budget import Cap, Values
from pytest_graphbreak.model.differences import Difference, check_differences
from pytest_graphbreak.model.forms import BadValue
from pytest_graphbreak.model.items import Break, Eager, Frame, Graph, Recompile
from pytest_graphbreak.model.layers import CAUSES
from pytest_graphbreak.model.record import Frames, Record
from tests.judging.tools import recorded

pytestmark = pytest.mark.pure

VERSIONS = {"torch": "2.9", "torch_xla": "2.9"}
OUTER = Frame("a.py", "outer", 3, "inner(x)")
INNER = Frame("a.py", "inner", 9, "print(x)")
AFTER = Frame("a.py", "inner", 10, "return x + 1")
ENTRY = Graph("dynamo", "0/0", "entry", 2, where=OUTER)
PLAIN = Record(("dynamo",), {"dynamo": 1}, graph_list=(ENTRY,), frames=Frames(1))
PRINT = Break("dynamo", "print", INNER, "GB0059", stack=(OUTER, INNER))
BROKEN = Record(
    ("dynamo",),
    {"dynamo": 2},
    frames=Frames(3),
    breaks=(PRINT,),
    eager=(Eager("dynamo", "print", OUTER),),
    graph_list=(ENTRY, Graph("dynamo", "1/0", "break", 1, where=AFTER, reason="print")),
)


def before(record: Record) -> Expected:
    return recorded(values(record), VERSIONS)


def test_a_break_takes_the_frame_and_the_graph_that_it_made_along() -> None:
    found = diff(before(PLAIN), BROKEN, versions=VERSIONS)
    seen = [(one.kind, one.total, one.cause, one.before, one.after, one.parent) for one in found]
    assert seen == [
        ("graph", True, "", 1, 2, None),
        ("break", True, "", 0, 1, None),
        ("eager", True, "", 0, 1, None),
        ("ops", True, "", 2, 3, None),
        ("break", False, "", 0, 1, None),
        ("eager", False, "", 0, 1, 4),
        ("graph", False, "break", 0, 1, 4),
    ]
    assert found[6].items_of(BROKEN) == (BROKEN.graph_list[1],)
    assert [one.where for one in found[4:]] == [INNER, OUTER, AFTER]


def test_what_is_gone_is_the_same_the_other_way_round() -> None:
    found = diff(before(BROKEN), PLAIN, versions=VERSIONS)
    assert [(one.kind, one.cause, one.growth) for one in found if not one.total] == [
        ("break", "", -1),
        ("eager", "", -1),
        ("graph", "break", -1),
    ]
    gone = next(one for one in found if one.cause)
    assert found[gone.parent].is_less


def test_a_break_that_makes_no_graph_is_no_cause_of_a_graph_more() -> None:
    """A callback of JAX may have been there before, which a cap of graphs does not know."""
    call = Break("jax", "jax.pure_callback: ...", INNER)
    again = Recompile("jax", "step/1", "at x: float32[3] before, float32[4] now", OUTER)
    graphs = (Graph("jax", "step/0", "jit"), Graph("jax", "step/1", "retrace", where=OUTER))
    record = Record(
        ("jax",), {"jax": 2}, {"jax": 1}, breaks=(call,), recompile_list=(again,), graph_list=graphs
    )

    def kinds(cap: Cap) -> list[str]:
        return [change.kind for change in diff(None, record, cap) if not change.total]

    assert kinds(Cap(1)) == ["recompile"]
    assert kinds(Cap(1, breaks=0)) == ["break", "recompile"]


def test_a_cap_names_its_number_and_what_was_there_is_not_known() -> None:
    found = diff(None, BROKEN, Cap(every=1, by="option"))
    assert (found[0].by, found[0].before, found[0].after) == ("option", 1, 2)
    assert {one.before for one in found if not one.total} == {None}
    assert diff(None, BROKEN, Cap(every=2)) == ()


def test_a_loop_is_one_change_and_what_it_calls_happens_with_it() -> None:
    items = [
        Recompile("dynamo", f"{frame}/{n}", f"n == {n} (n is {n + 1} now)", where, stack)
        for n in (1, 2, 3)
        for frame, where, stack in ((0, OUTER, ()), (1, INNER, (OUTER,)))
    ]
    record = Record(("dynamo",), {"dynamo": 6}, {"dynamo": 6}, recompile_list=tuple(items))
    left = [
        structs.replace(item, reason="___stack0 == 3") if item.where == INNER else item
        for item in items
    ]
    (loop, called) = observed_changes(structs.replace(record, recompile_list=tuple(left)))
    assert (loop.items, loop.after, loop.parent) == ((0, 2, 4), 3, None)
    assert (called.items, called.after, called.parent) == ((1, 3, 5), 3, 0)


def test_the_verdict_stands_at_what_leads_to_it() -> None:
    verdict = judge(BROKEN, before(PLAIN), versions=VERSIONS)
    assert [(one.kind, one.verdict) for one in verdict.changes if one.total] == [
        ("graph", "over"),
        ("break", "over"),
        ("eager", "lost"),
        ("ops", "changed"),
    ]
    assert judge(PLAIN, before(BROKEN), versions=VERSIONS, ops=None).name == "improved"


def test_json_has_all_of_it() -> None:
    for one in diff(before(PLAIN), BROKEN, versions=VERSIONS):
        assert Difference.from_dict(one.to_dict()) == one
    assert diff(before(PLAIN), BROKEN, versions=VERSIONS)[6].to_dict()["with"] == 4


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (Difference("break", items=(1,)), "changes[0].items"),
        (Difference("ops", items=(0,)), "changes[0].items"),
        (Difference("break", parent=0), "changes[0].with"),
    ],
)
def test_a_number_of_nothing_is_refused(change: Difference, where: str) -> None:
    with pytest.raises(BadValue) as refused:
        check_differences([change], BROKEN)
    assert refused.value.place == where


def a_record(draw: random.Random, known: Record | None) -> Record:
    """Some graphs, breaks and frames left to eager, part of them those of ``known``."""
    places = [Frame("a.py", f"f{n}", 10 * n, f"line {n}") for n in range(4)]
    graphs = [item for item in (known.graph_list if known else ()) if draw.random() < 0.7]
    for _ in range(draw.randint(0, 5)):
        layer = draw.choice(("dynamo", "xla"))
        cause = draw.choice(CAUSES[layer])
        name = f"{draw.randint(0, 9)}/{draw.randint(0, 99)}"
        graphs.append(Graph(layer, name, cause, 2, where=draw.choice(places)))
    breaks = [Break("dynamo", "print", place) for place in places if draw.random() < 0.3]
    eager = [Eager("dynamo", "skipped", place) for place in places if draw.random() < 0.2]
    again = sum((item.layer, item.cause) == ("dynamo", "recompile") for item in graphs)
    return Record(
        ("dynamo", "xla"),
        {
            layer: count
            for layer in ("dynamo", "xla")
            if (count := sum(item.layer == layer for item in graphs))
        },
        recompiles={"dynamo": again} if again else {},
        frames=Frames(1),
        breaks=tuple(breaks),
        eager=tuple(eager),
        graph_list=tuple(graphs),
    )


@given(st.integers(0, 10**6))
def test_places_add_up_to_totals_and_each_item_stands_once(seed: int) -> None:
    draw = random.Random(seed)
    was = a_record(draw, None)
    now = a_record(draw, was)
    found = diff(before(was), now, versions=VERSIONS)
    check_differences(found, now)
    items = [(one.kind, item) for one in found if not one.was for item in one.items]
    assert len(items) == len(set(items))
    for kind in ("break", "eager"):
        of = [one for one in found if one.kind == kind and one.layer != "xla"]
        total = sum(one.growth for one in of if one.total)
        assert sum((one.growth > 0) - (one.growth < 0) for one in of if not one.total) == total
    assert bool(found) == bool(diff(before(now), was, versions=VERSIONS))


def test_a_baseline_that_knows_no_causes_says_so() -> None:
    old = replace(before(PLAIN), values=Values({"dynamo": 1}))
    device = structs.replace(BROKEN, breaks=(), eager=(), graph_list=(ENTRY, *BROKEN.graph_list))
    found = diff(old, structs.replace(device, graphs={"dynamo": 3}), versions=VERSIONS)
    assert [(one.before, one.unsure) for one in found if not one.total] == [(None, True)]


def test_a_graph_goes_with_the_break_of_its_function() -> None:
    other = Break("dynamo", "print", Frame("a.py", "other", 5, "print(y)"), "GB0059")
    found = diff(before(structs.replace(BROKEN, breaks=(PRINT, other))), PLAIN, versions=VERSIONS)
    (gone,) = (one for one in found if one.cause)
    assert found[gone.parent].where.function == "inner"


def test_a_device_graph_that_is_compiled_again_goes_with_the_break_that_cut_its_function() -> None:
    again = Graph("dynamo", "1/1", "recompile", 1, where=AFTER)
    device = Graph("xla", "3", "recompile", sources=("1/1",), where=AFTER, reason="y went from")
    own = Graph("xla", "4", "recompile", sources=("0/1",), where=AFTER, reason="x went from")
    record = structs.replace(
        BROKEN,
        layers=("dynamo", "xla"),
        graphs={"dynamo": 3, "xla": 2},
        graph_list=(*BROKEN.graph_list, again, device, own),
    )
    changes = diff(before(PLAIN), record, versions=VERSIONS)
    parents = {one.reason: one.parent for one in changes if one.layer == "xla" and not one.total}
    (broke,) = [n for n, one in enumerate(changes) if one.kind == "break" and not one.total]
    # What the user compiled (frame 0) has a reason of its own.
    assert parents == {"y went from": broke, "x went from": None}


def test_a_graph_that_is_reported_by_its_recompile_is_reported_once() -> None:
    graphs = tuple(Graph("xla", str(n), "recompile", 1, where=OUTER, reason="x") for n in (1, 2, 3))
    record = Record(
        ("xla",),
        {"xla": 3},
        {"xla": 3},
        graph_list=graphs,
        recompile_list=tuple(Recompile("xla", one.name, "x", OUTER) for one in graphs),
    )
    for found in (observed_changes(record), diff(None, record, Cap(every=0))):
        assert [(one.kind, one.after) for one in found if not one.total] == [("recompile", 3)]


def test_what_a_known_break_leaves_goes_with_the_new_recompile_of_its_function() -> None:
    """As ``opt.step()`` does, which breaks in torch: compiled again, it breaks there again."""
    again = structs.replace(
        BROKEN,
        graphs={"dynamo": 4},
        recompiles={"dynamo": 1},
        breaks=(structs.replace(PRINT, count=2),),
        recompile_list=(Recompile("dynamo", "0/1", "CFG.steps == 1", OUTER),),
        graph_list=(
            *BROKEN.graph_list,
            Graph("dynamo", "0/1", "recompile", 2, where=OUTER, reason="CFG.steps == 1"),
            Graph("dynamo", "2/0", "break", 1, where=AFTER, reason="print"),
        ),
    )
    found = diff(before(BROKEN), again, versions=VERSIONS)
    places = [one for one in found if not one.total]
    assert [(one.kind, one.where) for one in places if one.parent is None] == [("recompile", OUTER)]
    assert [one.parent is None for one in places if one.cause == "break"] == [False]
    # Without that recompile the graph stands for itself: nothing else says why it is there.
    alone = structs.replace(
        again,
        graphs={"dynamo": 3},
        recompiles={},
        recompile_list=(),
        graph_list=(*BROKEN.graph_list, again.graph_list[-1]),
    )
    found = diff(before(BROKEN), alone, versions=VERSIONS)
    assert [one.cause for one in found if not one.total and one.parent is None] == ["break"]


def test_an_entry_that_is_compiled_no_more_is_a_change_of_its_own() -> None:
    now = structs.replace(BROKEN, graph_list=(Graph("dynamo", "0/0", "entry", 3, where=INNER),))
    now = structs.replace(now, graphs={"dynamo": 1}, breaks=())
    was = structs.replace(now, graph_list=(Graph("dynamo", "0/0", "entry", 5, where=OUTER),))
    found = [one for one in diff(before(was), now, versions=VERSIONS) if not one.total]
    assert [(one.where.function, one.before, one.after) for one in found] == [
        ("inner", 0, 1),
        ("outer", 1, 0),
    ]
