"""What changed between two sets of runs: causes, tests, and what cannot be decided."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_graphbreak.runs.compare import compare
from pytest_graphbreak.runs.comparison import CauseChange, Comparison
from pytest_graphbreak.runs.incoming import parse
from tests.examples import examples
from tests.growth import grows
from tests.reports import Data, a_break, a_graph, a_report, a_test, place

T = "tests/test_a.py::test_b"
BREAK = place("transformers/models/bart.py", "Decoder.forward", 9, "if mask.any():")


def compared(before: Data | list[Data], after: Data | list[Data]) -> Comparison:
    sides = (side if isinstance(side, list) else [side] for side in (before, after))
    one, other = (
        [parse(f"{name}{number}.json", report) for number, report in enumerate(reports)]
        for name, reports in zip("ba", sides, strict=True)
    )
    return compare(one, other)


def broken(nodeid: str = T, where: Data = BREAK, **changes: Any) -> Data:
    """A test whose one function breaks once: an entry, and what follows the break."""
    item = a_break(where, **changes)
    graphs = [
        a_graph("0/0", ops=6),
        a_graph("1/0", "break", ops=6, where=where, reason=item["reason"]),
    ]
    return a_test(
        nodeid, graphs={"dynamo": 2}, ops={"dynamo": 12}, breaks=[item], graph_list=graphs
    )


def reported(found: Comparison) -> list[tuple[str, str, int, dict[str, int]]]:
    return [(one.how, one.kind, len(one.effects), one.graphs) for one in found.changes]


def of_transformers(report: Data, version: str) -> Data:
    report["environment"]["packages"] = {"transformers": version}
    return report


def test_one_cause_in_many_tests_is_one_change() -> None:
    names = [f"{T}[{number}]" for number in range(61)]
    before = of_transformers(a_report(*map(a_test, names)), "5.20.0")
    after = of_transformers(a_report(*map(broken, names)), "5.24.0")
    found = compared(before, after)
    assert reported(found) == [("new", "break", 61, {"dynamo": 61})]
    (change,) = found.changes
    assert change.where.code == "if mask.any():"
    assert change.package is not None
    assert (change.package.before, change.package.after) == ("5.20.0", "5.24.0")
    assert change.package.moved
    assert [pair.growth for pair in found.pairs] == [1] * 61
    assert found.differs
    back = compared(after, before)
    assert reported(back) == [("gone", "break", 61, {"dynamo": -61})]


def test_equal_runs_do_not_differ() -> None:
    report = a_report(a_test(T, 3))
    found = compared(report, report)
    assert not found.differs
    assert found.changes == []
    assert not found.pairs[0].moved


def test_line_numbers_are_no_difference() -> None:
    found = compared(a_report(broken()), a_report(broken(where=BREAK | {"line": 99})))
    assert not found.differs


@pytest.mark.parametrize(("torch", "how"), [("2.13.0", "reworded"), ("2.9.1", "reason")])
def test_another_torch_rewords_and_the_same_torch_has_another_reason(torch: str, how: str) -> None:
    found = compared(
        a_report(broken(id="GB0156", reason="Unsupported method call"), torch="2.9.0"),
        a_report(broken(id="GB4347", reason="Missing tp_iternext"), torch=torch),
    )
    (change,) = found.changes
    assert change.how == how
    before = change.step.before
    assert before is not None
    assert (before.id, before.reason) == ("GB0156", "Unsupported method call")
    assert change.graphs == {}
    assert found.differs == (how == "reason")


def test_numbers_in_a_reason_are_those_of_the_inputs() -> None:
    found = compared(
        a_report(broken(reason="size 3 of x")), a_report(broken(reason="size 14 of x"))
    )
    assert not found.differs


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"file": "transformers/models/bert.py"}, "file"),
        ({"function": "Encoder.forward"}, "function"),
        ({"file": "transformers/utils.py", "function": "wrapper"}, "place"),
        ({"code": "if bool(mask.any()):"}, "line"),
    ],
)
def test_what_may_have_been_renamed_is_not_decided(change: Data, why: str) -> None:
    found = compared(a_report(broken()), a_report(broken(where=BREAK | change)))
    assert found.changes == []
    (moved,) = found.moved
    assert moved.why == why
    assert (moved.before.graphs, moved.after.graphs) == ({"dynamo": -1}, {"dynamo": 1})
    assert found.differs


def test_places_without_anything_in_common_are_gone_and_new() -> None:
    other = place("models/head.py", "Head.forward", 3, "print(x)")
    found = compared(a_report(broken()), a_report(broken(where=other, id="GB0291", reason="print")))
    assert not found.moved
    assert {one.how for one in found.changes} == {"gone", "new"}


def test_tests_that_are_there_once() -> None:
    found = compared(
        a_report(a_test("tests/test_a.py::test_old"), a_test("tests/test_a.py::test_x")),
        a_report(a_test("tests/test_new.py::test_x"), a_test("tests/test_a.py::test_more")),
    )
    assert [(one.side, one.nodeid, one.maybe) for one in found.once] == [
        ("before", "tests/test_a.py::test_old", None),
        ("before", "tests/test_a.py::test_x", "tests/test_new.py::test_x"),
        ("after", "tests/test_new.py::test_x", "tests/test_a.py::test_x"),
        ("after", "tests/test_a.py::test_more", None),
    ]
    assert found.differs


@pytest.mark.parametrize(
    ("test", "why"),
    [
        (a_test(T, outcome="failed", failed_by="test"), "failed by itself after"),
        (a_test(T, 0, layers=[], outcome="skipped"), "skipped after"),
        (a_test(T, 0, layers=[], outcome="crashed"), "crashed after"),
        (a_test(T, errors=["no sensor"], failed_by="gate"), "could not be seen after: no sensor"),
        (a_test(T, outcome="xfailed", verdict="none"), "xfailed after"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_one_side_did_not_measure_is_not_compared(test: Data, why: str) -> None:
    found = compared(a_report(a_test()), a_report(test))
    assert [one.why for one in found.unequal] == [why]
    assert not found.pairs


def test_a_side_that_contradicts_itself_is_not_compared() -> None:
    twice = [a_report(a_test(T, 1)), a_report(a_test(T, 2))]
    found = compared(twice, a_report(a_test(T, 1)))
    assert found.unequal[0].why == (
        "the reports before contradict each other: 1 or 2 dynamo graphs"
    )


def test_shards_are_put_together_and_profiles_apart() -> None:
    found = compared(
        [a_report(a_test("t.py::a")), a_report(a_test("t.py::b"), profile="cuda")],
        [a_report(a_test("t.py::b", 2), profile="cuda"), a_report(a_test("t.py::a"))],
    )
    assert [(pair.nodeid, pair.profile, pair.growth) for pair in found.pairs] == [
        ("t.py::b", "cuda", 1),
        ("t.py::a", "cpu", 0),
    ]


def test_one_profile_on_each_side_belongs_together_whatever_its_name() -> None:
    found = compared(
        a_report(a_test(), profile="cpu-2.9"), a_report(a_test(T, 2), profile="cpu-2.13")
    )
    assert [pair.profile for pair in found.pairs] == ["cpu-2.9 -> cpu-2.13"]


def test_only_layers_that_both_sides_observed_are_compared() -> None:
    device = a_graph("0", "sync", "xla", where=place("train.py", "step", 4, "torch_xla.sync()"))
    before = a_test(T)
    after = a_test(T, layers=["dynamo", "xla"], graphs={"dynamo": 1, "xla": 1})
    after["graph_list"].append(device)
    found = compared(a_report(before), a_report(after))
    assert found.pairs[0].layers == ("dynamo",)
    assert found.changes == []
    assert found.layers == {("xla", "after"): [T]}  # which is said: the count of 0 is unknown
    assert found.differs
    idle = a_test(T, layers=["dynamo", "xla"])
    assert not compared(a_report(before), a_report(idle)).differs


def on_device(test: Data, *graphs: Data) -> Data:
    """The test on xla, too."""
    test["layers"] = ["dynamo", "xla"]
    test["graphs"]["xla"] = len(graphs)
    test["graph_list"] += graphs
    return test


def test_a_device_graph_counts_for_the_break_that_its_fx_graph_is_there_for() -> None:
    entry = a_graph("x0", "fx", "xla", **{"from": ["0/0"]})
    rest = a_graph("x1", "fx", "xla", where=BREAK, **{"from": ["1/0"]})
    found = compared(
        a_report(on_device(a_test(), entry)), a_report(on_device(broken(), entry, rest))
    )
    assert reported(found) == [("new", "break", 1, {"dynamo": 1, "xla": 1})]


def test_device_causes_are_reported_by_place() -> None:
    entry = a_graph("x0", "fx", "xla", **{"from": ["0/0"]})
    where = place("model.py", "Net.forward", 4, "x.histc(16)")
    split = a_graph("x1", "split", "xla", where=where, reason="aten::histc runs on the CPU")
    found = compared(
        a_report(on_device(a_test(), entry)), a_report(on_device(a_test(), entry, split, split))
    )
    assert reported(found) == [("new", "split", 1, {"xla": 2})]
    assert found.changes[0].cause.reason == "aten::histc runs on the CPU"


def again(times: int) -> Data:
    where = place("model.py", "Net.forward", 3, "def forward(self, x):")
    graphs = [a_graph("0/0", where=where)]
    graphs += [a_graph(f"0/{number + 1}", "recompile", where=where) for number in range(times)]
    items = [
        {"layer": "dynamo", "graph": f"0/{number + 1}", "reason": f"n == {number}", "where": where}
        for number in range(times)
    ]
    return a_test(
        graphs={"dynamo": 1 + times},
        recompiles={"dynamo": times} if times else {},
        recompile_list=items,
        graph_list=graphs,
    )


def test_what_is_compiled_again() -> None:
    assert reported(compared(a_report(again(0)), a_report(again(3)))) == [
        ("new", "recompile", 1, {"dynamo": 3})
    ]
    assert reported(compared(a_report(again(3)), a_report(again(1)))) == [
        ("fewer", "recompile", 1, {"dynamo": -2})
    ]


def test_what_left_the_compiler() -> None:
    where = place("model.py", "Net.forward", 3, "def forward(self, x):")
    left = {"layer": "dynamo", "reason": "skipped", "count": 2, "where": where}
    found = compared(a_report(a_test()), a_report(a_test(eager=[left])))
    assert reported(found) == [("new", "eager", 1, {})]
    assert found.changes[0].effects[0].times == (0, 2)


def test_a_frame_that_is_skipped_for_a_break_stands_with_it() -> None:
    frame = place("tests/test_a.py", "test_b", 18, "def test_b():")
    left = {"layer": "dynamo", "reason": "Unsupported", "count": 1, "where": frame}
    found = compared(a_report(a_test()), a_report(broken() | {"eager": [left]}))
    assert reported(found) == [("new", "break", 1, {"dynamo": 1})]
    assert [item.kind for item in found.changes[0].with_it.values()] == ["eager"]


def test_no_graphs_any_more() -> None:
    found = compared(a_report(a_test()), a_report(a_test(T, 0)))
    assert found.pairs[0].emptied == ("dynamo",)
    assert reported(found) == [("gone", "entry", 1, {"dynamo": -1})]


def test_graphs_that_are_counted_and_not_reported_are_not_hidden() -> None:
    found = compared(a_report(a_test()), a_report(a_test(graphs={"dynamo": 5})))
    assert reported(found) == [("new", "unexplained", 1, {"dynamo": 4})]


def test_settings_that_differ_are_reported() -> None:
    scalars, limit = "torch._dynamo.config.capture_scalar_outputs", "torch._dynamo.config.limit"
    found = compared(
        a_report(a_test("t.py::a"), a_test("t.py::b", settings={limit: 8})),
        a_report(
            a_test("t.py::a", settings={scalars: True}), a_test("t.py::b", settings={limit: 4})
        ),
    )
    assert [(one.before, one.after, tests) for one, tests in found.settings.items()] == [
        (None, "True", ["t.py::a"]),
        ("8", "4", ["t.py::b"]),
    ]
    assert not found.differs


def test_an_edited_first_line_of_a_function_is_no_difference() -> None:
    after = a_test()
    after["graph_list"][0]["where"] = after["graph_list"][0]["where"] | {"code": "def forward("}
    assert not compared(a_report(a_test()), a_report(after)).differs


PLACES = [place("m.py", f"f{number}", number, f"line {number}") for number in range(4)]
RANDOM = st.builds(
    lambda breaks, entries, loops: (breaks, entries, loops),
    st.lists(st.sampled_from(PLACES), max_size=4),
    st.lists(st.sampled_from(PLACES), max_size=3),
    st.lists(st.sampled_from(PLACES), max_size=3),
)


def random_test(made: Any) -> Data:
    breaks, entries, loops = made
    where = {json["file"] + json["function"]: json for json in breaks}
    graphs = [a_graph(f"{n}/0", where=at) for n, at in enumerate(entries)]
    graphs += [a_graph(f"{n + 9}/0", "break", where=at) for n, at in enumerate(breaks)]
    graphs += [a_graph(f"{n + 20}/1", "recompile", where=at) for n, at in enumerate(loops)]
    return a_test(
        graphs={"dynamo": len(graphs)},
        breaks=[a_break(at) for at in where.values()],
        graph_list=graphs,
        recompile_list=[
            {"layer": "dynamo", "graph": f"{n + 20}/1", "reason": "n", "where": at}
            for n, at in enumerate(loops)
        ],
    )


@given(st.lists(st.tuples(RANDOM, RANDOM), min_size=1, max_size=4))
@examples(200)
def test_the_growth_of_all_tests_is_the_sum_of_all_changes(made: Any) -> None:
    before, after = (
        a_report(*(random_test(one[side]) | {"nodeid": f"t.py::{n}"} for n, one in enumerate(made)))
        for side in (0, 1)
    )
    found = compared(before, after)
    total = Counter[str]()
    changes: list[CauseChange] = [*found.changes]
    for pair in found.moved:
        changes += (pair.before, pair.after)
    for change in changes:
        total.update(change.graphs)
    assert total["dynamo"] == sum(pair.growth for pair in found.pairs)


def test_thousands_of_places_with_one_line_take_no_longer_than_they_are_many() -> None:
    """A stranger's report may have any number of places, all of them alike."""

    def crowded(file: str, count: int) -> Data:
        spots = [place(f"{file}{n}.py", "f", n, "x") for n in range(count)]
        left = [{"layer": "dynamo", "reason": "r", "count": 1, "where": spot} for spot in spots]
        return a_report(a_test(breaks=[a_break(spot) for spot in spots], eager=left))

    def compare(count: int) -> None:
        found = compared(crowded("a", count), crowded("b", count))
        assert len(found.moved) == count

    assert not grows(partial(compare, 1000), partial(compare, 4000), 8)


def test_runs_and_reads_of_both_sides_are_compared() -> None:
    before, after = (
        a_report(a_test("t.py::a", executions={"dynamo": n}, reads={"dynamo": 0})) for n in (3, 36)
    )
    (pair,) = compared(before, after).pairs
    assert (pair.executions, pair.reads) == ({"dynamo": (3, 36)}, {"dynamo": (0, 0)})
    assert pair.moved
