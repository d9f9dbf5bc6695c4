"""What counts as a gain: fewer graphs, or more that is compiled."""

from __future__ import annotations

import pytest
from msgspec import structs

from pytest_graphbreak.cli.fix import report
from pytest_graphbreak.model.items import Break, Eager, Frame, Graph
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.repair.gain import no_gain
from pytest_graphbreak.repair.search import Problem, SearchResult
from pytest_graphbreak.repair.trial import Trial

pytestmark = pytest.mark.once


def record(graphs: int, *, ops: int = 2, eager: str = "", breaks: int = 0) -> Record:
    """``graphs`` of so many ops each; ``eager`` names a line at which code left the compiler."""
    where = Frame("a_trial2.py", "f", 3, eager)
    return Record(
        layers=("dynamo",),
        graphs={"dynamo": graphs} if graphs else {},
        graph_list=tuple(
            Graph("dynamo", str(number), "entry", ops=ops) for number in range(graphs)
        ),
        eager=(Eager("dynamo", "a loop", where),) if eager else (),
        breaks=tuple(Break("dynamo", "b", Frame("a.py", "f", n)) for n in range(breaks)),
    )


EAGER = record(0, eager="def f(x):", breaks=1)


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (EAGER, record(1), ""),
        (EAGER, record(2, breaks=1), ""),  # one under no_grad
        (EAGER, record(3, breaks=2), ""),  # breaks that nobody could see before
        (EAGER, record(0), ""),  # nothing was compiled before either, and now nothing breaks
        (EAGER, EAGER, "neither graphs nor breaks got fewer (0 -> 0, 1 -> 1)"),
        (record(2, breaks=1), record(1, ops=4), ""),
        (
            record(2, breaks=1),
            record(2, ops=5, breaks=1),
            "neither graphs nor breaks got fewer (2 -> 2, 1 -> 1)",
        ),
        (record(2, breaks=1), record(1, eager="def f(x):"), "f leaves the compiler: a loop"),
        (record(2, breaks=1), record(0), "nothing is compiled"),
        (record(1, breaks=1), record(1), ""),
        (record(1, breaks=1), record(2), "the dynamo graphs got more (1 -> 2)"),
        (record(2, breaks=2), record(2, breaks=1, ops=1), "less is compiled (4 -> 2 operations)"),
    ],
)
def test_a_gain_is_fewer_graphs_or_breaks_and_nothing_worse(
    before: Record, after: Record, why: str
) -> None:
    seen = no_gain(Trial(before), Trial(after))
    assert seen.startswith(why)
    assert bool(seen) == bool(why)


def on_device(dynamo: int, *, ops: int = 2, breaks: int = 2, xla: int = 5) -> Trial:
    """A record of Dynamo and of torch_xla below it."""
    above = record(dynamo, ops=ops, breaks=breaks)
    graphs = {"dynamo": dynamo, "xla": xla}
    return Trial(structs.replace(above, layers=("dynamo", "xla"), graphs=graphs))


@pytest.mark.parametrize(
    ("after", "why"),
    [
        (on_device(4, breaks=1), ""),
        (on_device(4, xla=4), ""),
        (on_device(5, breaks=1), "the dynamo graphs got more (4 -> 5)"),
        (on_device(2, ops=4, breaks=1, xla=6), "the xla graphs got more (5 -> 6)"),
    ],
)
def test_no_layer_pays_for_the_gain_of_another(after: Trial, why: str) -> None:
    assert no_gain(on_device(4), after) == why


def test_a_model_is_not_left_out_for_the_graph_of_its_optimizer() -> None:
    """The optimizer's holds more operations, but no function of a model or of the program."""
    model = Graph("dynamo", "0", "callee", ops=100, functions={"net.py::Net.forward": 100})
    optimizer = Graph("dynamo", "1", "callee", ops=500)
    before = Trial(structs.replace(record(2), graph_list=(model, optimizer)))
    after = Trial(structs.replace(record(1), graph_list=(optimizer,)))
    assert no_gain(before, after) == "less is compiled (100 -> 0 operations)"
    assert not no_gain(before, after, all_compiled=True)


@pytest.mark.parametrize(("xla", "gain"), [(34, False), (32, True)])
def test_code_that_is_won_back_may_not_cost_graphs_of_a_device(xla: int, gain: bool) -> None:
    left = on_device(1, breaks=1, xla=32)
    before = structs.replace(left, record=structs.replace(left.record, eager=EAGER.eager))
    assert bool(no_gain(before, on_device(2, ops=9, breaks=0, xla=xla))) is not gain


def test_a_fallback_of_inductor_is_no_code_that_left_the_compiler() -> None:
    fallback = Eager("inductor", "aten.sort has no kernel of inductor here", Frame("a.py", "f", 3))
    with_fallback = Trial(structs.replace(record(1, ops=4), eager=(fallback,)))
    assert not no_gain(Trial(record(2, breaks=1)), with_fallback)
    assert no_gain(with_fallback, Trial(record(1)))


def test_where_remedies_were_tried_no_hint_repeats_them() -> None:
    """On torch_xla a value in a graph splits it, so that there are more graphs with the switch."""
    item = Break("dynamo", "Unsupported Tensor.item() call", Frame("a.py", "f", 3, "x.item()"))
    switch = "capture_scalar_outputs: .item() becomes a node of the graph"
    problem = Problem(item)
    first = Trial(record(2, breaks=1))
    out = SearchResult(first, first, problems=[problem])

    def advised() -> list[str]:
        return [line.text for line in report(out, lambda _: iter(())) if line.head == "fix: "]

    setting = "torch._dynamo.config.capture_scalar_outputs = True"
    assert advised() == [f"{setting}, where no if, index or length depends on it"]
    problem.tried.append((switch, "the graphs got more (2 -> 6)"))
    assert not advised()


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (record(2, breaks=1), "graphs 2 -> 2"),
        (record(1), "graphs 2 -> 1"),
        (record(2), "graphs 2 -> 2, breaks 1 -> 0"),
    ],
)
def test_what_was_gained_is_said(after: Record, words: str) -> None:
    out = SearchResult(Trial(record(2, breaks=1)), Trial(after))
    *_, last = report(out, lambda _: iter(()))
    assert last.text == words
