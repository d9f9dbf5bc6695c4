"""Causes of graphs: which are written, and what is new, gone and known against a baseline."""

from __future__ import annotations

import pytest
from msgspec import structs
from msgspec.structs import replace

from pytest_graphbreak.baseline.model import Expected
from pytest_graphbreak.judging.matching import match
from pytest_graphbreak.judging.measured import causes, entries
from pytest_graphbreak.judging.verdict import judge
from pytest_graphbreak.model.budget import Cause, Values
from pytest_graphbreak.model.items import Frame, Graph, Recompile
from pytest_graphbreak.model.record import Frames, Record
from tests.judging.tools import recorded

pytestmark = pytest.mark.pure


def graph(layer: str, cause: str, function: str = "f", *, above: str = "", name: str = "") -> Graph:
    where = Frame("a.py", function, 3, f"def {function}(x):")
    return Graph(layer, name, cause, ops=2, sources=(above,) if above else (), where=where)


def seen(*graphs: Graph, **counts: int) -> Record:
    made: dict[str, int] = {}
    for item in graphs:
        made[item.layer] = made.get(item.layer, 0) + 1
    return Record(
        layers=("dynamo", "xla"), graphs=made | counts, graph_list=graphs, frames=Frames(1)
    )


def base(record: Record, names: tuple[str, ...] | None = None) -> Expected:
    values = Values(
        graphs=record.graphs,
        ops=record.ops,
        causes=causes(record),
        entries=tuple(entries(record)) if names is None else names,
    )
    return recorded(values, {"torch": "2.9", "torch_xla": "2.9"})


ENTRY = graph("dynamo", "entry")
LOWERED = graph("xla", "fx", above="0/0")


@pytest.mark.parametrize(
    ("graphs", "written"),
    [
        ([ENTRY, LOWERED], []),  # plain ones
        ([ENTRY, graph("dynamo", "callee", "g"), LOWERED], [("dynamo", "callee", "g", 1)]),
        (
            [graph("dynamo", "entry", name) for name in "fgf"],
            [("dynamo", "entry", "f", 2), ("dynamo", "entry", "g", 1)],
        ),
        ([graph("xla", "fx")], [("xla", "fx", "f", 1)]),  # without one of Dynamo's above it
        ([graph("xla", "access", "g")], [("xla", "access", "g", 1)]),
        ([graph("xla", "sorcery")], []),  # what a later version calls a cause
    ],
)
def test_what_is_not_plain_is_written_each_place_once(
    graphs: list[Graph], written: list[tuple[str, str, str, int]]
) -> None:
    assert [*causes(seen(*graphs))] == [
        Cause(layer, cause, f"a.py::{name}", f"def {name}(x):", count)
        for layer, cause, name, count in written
    ]


def test_a_layer_that_is_not_explained_has_no_causes() -> None:
    record = seen(graph("xla", "sync"), xla=2)
    assert causes(record) == ()
    assert match(record, base(seen(graph("xla", "sync"))), "xla") is None


def test_a_baseline_of_an_earlier_version_knows_no_causes() -> None:
    record = seen(graph("xla", "sync"))
    old = Expected(Values({"xla": 1}), "cpu", {"torch": "2.9"}, recorded=True)
    assert match(record, old, "xla") is None
    assert judge(record, old, versions={"torch": "2.9"}).name == "ok"


def test_new_gone_and_known_in_numbers() -> None:
    before = seen(ENTRY, LOWERED, *(graph("xla", "access", n) for n in "ggh"))
    now = seen(ENTRY, LOWERED, *(graph("xla", "access", n) for n in "gggkk"))
    moved = match(now, base(before), "xla")
    assert [item.where.function for item in moved.added] == ["g", "k", "k"]
    assert moved.gone == ((Cause("xla", "access", "a.py::h", "def h(x):"), 0),)


def test_the_only_entry_is_known_by_its_name_if_the_baseline_has_it() -> None:
    now, before = seen(graph("dynamo", "entry", "g")), seen(ENTRY)
    moved = match(now, base(before), "dynamo")
    assert (moved.added, moved.gone) == (
        now.graph_list,
        ((Cause("dynamo", "entry", "a.py::f"), 0),),
    )
    unnamed = match(now, base(before, ()), "dynamo")
    assert (unnamed.added, unnamed.gone) == ((), ())


def test_which_of_two_functions_is_new_is_known_by_the_recorded_entries() -> None:
    before = seen(graph("dynamo", "entry", "g"))
    now = seen(graph("dynamo", "entry", "f"), graph("dynamo", "entry", "g"))
    moved = match(now, base(before), "dynamo")
    assert [item.where.function for item in moved.added] == ["f"]
    assert not moved.unsure
    unknown = match(now, base(before, ()), "dynamo")
    assert unknown.unsure
    assert len(unknown.added) == 2


def test_other_causes_with_equal_counts_are_a_change() -> None:
    before = seen(ENTRY, graph("xla", "access", "g"))
    now = seen(ENTRY, graph("xla", "access", "h"))
    assert judge(now, base(before), versions={"torch": "2.9.1"}).name == "changed"
    assert judge(before, base(before), versions={"torch": "2.9.1"}).name == "ok"
    # Another torch may cut the same code at other lines.
    assert judge(now, base(before), versions={"torch": "2.10"}).name == "ok"


def test_graphs_of_dynamo_that_are_lowered_are_no_change() -> None:
    before = seen(ENTRY, LOWERED)
    now = seen(ENTRY, LOWERED, LOWERED)
    moved = match(now, base(before), "xla")
    assert [item.cause for item in moved.added] == ["fx"]
    assert judge(now, base(before), versions={"torch": "2.9"}).name == "over"
    assert not any(
        one.verdict == "changed"
        for one in judge(now, base(before), versions={"torch": "2.9"}, ops=None).changes
    )


SIZE, DTYPE = (f"tensor 'x' {what} mismatch at index 0. expected 4" for what in ("size", "dtype"))
NOW = {"torch": "2.9.1"}


def again(*calls: tuple[str, str]) -> Record:
    """A function compiled again for each guard and line that called it."""
    stacks = [(reason, (Frame("a.py", "test", 9, code),)) for reason, code in calls]
    items = tuple(
        Recompile("dynamo", f"0/{n}", reason, Frame("a.py", "f", 3, "def f(x):"), stack)
        for n, (reason, stack) in enumerate(stacks, 1)
    )
    graphs = (graph("dynamo", "recompile", name=item.graph) for item in items)
    record = seen(graph("dynamo", "entry", name="0/0"), *graphs)
    return structs.replace(record, recompile_list=items, recompiles={"dynamo": len(items)})


def expected(before: Record) -> Expected:
    known = base(before)
    return replace(known, values=structs.replace(known.values, recompiles=before.recompiles))


def test_what_was_compiled_again_is_written_with_its_guard_and_its_call() -> None:
    assert causes(again((SIZE, "run(x)"))) == (
        Cause("dynamo", "recompile", "a.py::f", "def f(x):", 1, "shape of x", "run(x)"),
    )


def test_another_guard_is_a_change_where_the_counts_are_equal() -> None:
    known = expected(again((SIZE, "run(x)")))
    verdict = judge(again((DTYPE, "run(x)")), known, versions=NOW)
    assert verdict.name == "changed"
    assert [one.reason for one in verdict.changes if one.kind == "recompile"] == [DTYPE]
    # Each torch has words of its own for its guards.
    assert judge(again((DTYPE, "run(x)")), known, versions={"torch": "2.10"}).name == "ok"


@pytest.mark.parametrize("order", [1, -1])
def test_the_new_one_of_several_is_reported_by_its_guard_and_not_by_their_order(order: int) -> None:
    known = expected(again((SIZE, "run(x)")))
    calls = [(DTYPE, "run(x.double())"), (SIZE, "run(x)")][::order]
    verdict = judge(again(*calls), known, versions=NOW)
    assert verdict.name == "over"
    reported = [one for one in verdict.changes if one.kind == "recompile" and not one.total]
    assert [one.reason for one in reported] == [DTYPE]


def test_the_new_one_of_two_with_one_guard_is_reported_by_its_call() -> None:
    known = expected(again((SIZE, "run(x)")))
    verdict = judge(again((SIZE, "run(x[1:])"), (SIZE, "run(x)")), known, versions=NOW)
    (reported,) = [one for one in verdict.changes if one.kind == "recompile" and not one.total]
    assert reported.items == (0,)


def test_another_line_that_calls_it_is_no_change() -> None:
    known = expected(again((SIZE, "run(x)")))
    assert judge(again((SIZE, "run(x, 1)")), known, versions=NOW).name == "ok"


def test_an_entry_without_guards_is_judged_as_before() -> None:
    known = expected(again((SIZE, "run(x)")))
    old = tuple(structs.replace(item, guard="", called="") for item in known.values.causes)
    known = replace(known, values=structs.replace(known.values, causes=old))
    assert judge(again((DTYPE, "run(x)")), known, versions=NOW).name == "ok"


def of_jax(*causes: str) -> Record:
    graphs = tuple(graph("jax", cause, f"f{n}") for n, cause in enumerate(causes))
    return structs.replace(seen(*graphs), layers=("jax",), frames=Frames())


def known_of_jax(*causes: str) -> Expected:
    return replace(base(of_jax(*causes)), plain_with={"jax": "0.10"})


def test_an_operation_in_place_of_a_compiled_function_is_lost() -> None:
    """``jax.vmap(f)`` where ``jax.jit(jax.vmap(f))`` was: one graph before and after."""
    verdict = judge(of_jax("eager"), known_of_jax("jit"))
    assert verdict.name == "lost"
    assert [(one.kind, one.before, one.after) for one in verdict.lost] == [("eager", 0, 1)]
    assert (
        judge(of_jax("jit", "eager", "eager"), known_of_jax("jit", "jit", "eager")).name == "lost"
    )


def test_another_operation_outside_is_not_lost() -> None:
    assert judge(of_jax("jit", "eager"), known_of_jax("jit", "eager")).name == "ok"
    assert judge(of_jax("jit", "eager"), known_of_jax("jit", "transfer")).name != "lost"
