"""What counts as a gain: fewer graphs, or more that is compiled."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from pytest_graphbreak.model.record import Break, Eager, Frame, Graph, Record
from pytest_graphbreak.repair.gain import better, cleaner
from pytest_graphbreak.repair.outcome import Problem, RejectedPatch, SearchResult
from pytest_graphbreak.repair.patch import SourcePatch
from pytest_graphbreak.repair.report import report
from pytest_graphbreak.repair.trial import Trial
from tests.repair.conftest import Shop

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
    ("before", "after", "gain"),
    [
        (EAGER, record(1), True),
        (EAGER, record(2, breaks=1), True),  # one under no_grad
        (EAGER, record(3, breaks=2), True),  # breaks that nobody could see before
        (EAGER, record(1, eager="with open() as file:", breaks=1), True),  # half of it
        (EAGER, record(0, eager="y = torch.where(z, x.item(), x)", breaks=1), False),
        (EAGER, record(0), False),  # it is not even tried any more
        (EAGER, EAGER, False),
        (record(2, breaks=1), record(1), True),
        (record(2, breaks=1), record(2, ops=5), False),
        (record(2, breaks=1), record(1, eager="def f(x):"), False),
        (record(2, breaks=1), record(0), False),
    ],
)
def test_a_gain_is_measured_in_what_is_compiled(before: Record, after: Record, gain: bool) -> None:
    assert better(before, after) is gain


@pytest.mark.parametrize(
    ("before", "after", "gain"),
    [
        (record(1, breaks=1), record(1), True),
        (record(1, breaks=1), record(1, breaks=1), False),
        (record(2, breaks=2), record(2, breaks=1, ops=1), False),  # half of it is compiled
        (record(1, breaks=1), record(1, eager="def f(x):"), False),
        (record(1, breaks=1), record(2), False),
        (record(1, breaks=1, ops=3), record(1), True),  # a loop is one operator
        (record(1, breaks=2, ops=3), record(1, breaks=1), False),
    ],
)
def test_a_break_less_in_as_many_graphs_is_one_too(
    before: Record, after: Record, gain: bool
) -> None:
    assert cleaner(before, after) is gain


def on_device(dynamo: int, *, ops: int, breaks: int, xla: int = 5) -> Record:
    """A record of Dynamo and of torch_xla below it."""
    above = record(dynamo, ops=ops, breaks=breaks)
    graphs = {"dynamo": dynamo, "xla": xla}
    return structs.replace(above, layers=("dynamo", "xla"), graphs=graphs)


@pytest.mark.parametrize(
    ("after", "may_leave", "gain"),
    [
        (on_device(2, ops=2, breaks=1), False, True),  # resumed parts hold operators twice
        (on_device(2, ops=2, breaks=1), True, False),  # what was left out is in no graph
        (on_device(4, ops=1, breaks=1), False, False),  # half of it is compiled
        (on_device(5, ops=2, breaks=1), False, False),  # Dynamo compiles more
        (on_device(2, ops=2, breaks=2), False, False),
        (on_device(2, ops=2, breaks=1, xla=6), False, False),
    ],
)
def test_a_break_less_counts_in_as_many_graphs_of_a_device(
    after: Record, may_leave: bool, gain: bool
) -> None:
    before = on_device(4, ops=2, breaks=2)
    assert cleaner(before, after, may_leave=may_leave) is gain


def test_a_model_is_not_left_out_for_the_graph_of_its_optimizer() -> None:
    """The optimizer's holds more operations, but no function of a model or of the program."""
    model = Graph("dynamo", "0", "callee", ops=100, functions={"net.py::Net.forward": 100})
    optimizer = Graph("dynamo", "1", "callee", ops=500)
    before = structs.replace(record(2), graph_list=(model, optimizer))
    after = structs.replace(record(1), graph_list=(optimizer,))
    assert better(before, after)
    assert not better(before, after, may_leave=True)


@pytest.mark.parametrize(("xla", "gain"), [(34, False), (32, True)])
def test_code_that_is_won_back_may_not_cost_graphs_of_a_device(xla: int, gain: bool) -> None:
    """As a bisection whose torch.while_loop was cut into a graph for each round."""
    left = on_device(1, ops=2, breaks=1, xla=32)
    before = structs.replace(left, eager=EAGER.eager)
    assert better(before, on_device(1, ops=9, breaks=0, xla=xla)) is gain


def test_a_fallback_of_inductor_is_no_code_that_left_the_compiler() -> None:
    fallback = Eager("inductor", "aten.sort has no kernel of inductor here", Frame("a.py", "f", 3))
    assert better(record(2, breaks=1), structs.replace(record(1), eager=(fallback,)))
    assert not better(structs.replace(record(1), eager=(fallback,)), record(1))


def test_code_that_is_won_back_must_not_drive_out_other_code() -> None:
    """As nested_graph_breaks that made 18 graphs of 8, until the recompile limit elsewhere."""
    where, limit = Frame("a.py", "g", 3, "y = h(x)"), "recompile_limit was reached (8)"
    other = structs.replace(EAGER.eager[0], where=where, reason=limit)
    assert better(EAGER, record(18, ops=99))
    assert not better(EAGER, structs.replace(record(18, ops=99), eager=(other,)))


UNSURE = """
    import torch

    def f(x):
        y = x
        for i in range(2):
            if y.sum() > 0:
                y = y - y.mean().item()
        return y

    torch.compile(f, backend="eager")(torch.ones(4))
"""


def test_what_compiles_nothing_is_not_kept_when_the_runs_are_used_up(shop: Shop) -> None:
    """``torch.where`` moves the break to what it reads; only both patches together compile."""
    shop.write("a.py", UNSURE)
    said = shop.run("fix", "a.py", "--runs", "2")
    assert said.code == 1
    assert "stopped: the number of runs" in said.out
    assert [path.name for path in Path().iterdir()] == ["a.py"]


def test_a_switch_that_was_tried_is_no_advice() -> None:
    """On torch_xla a value in a graph splits it, so that there are more graphs with the switch."""
    item = Break("dynamo", "Unsupported Tensor.item() call", Frame("a.py", "f", 3, "x.item()"))
    switch = "capture_scalar_outputs: .item() becomes a node of the graph"
    problem = Problem(item, 2)
    first = Trial(record(2, breaks=1))
    out = SearchResult(first, first, problems=[problem])
    advice = [line.text for line in report(out, None) if line.head == "fix: "]
    assert advice == [
        "keep it a tensor (if: torch.where), or torch._dynamo.config.capture_scalar_outputs = True"
    ]
    problem.tried.append(RejectedPatch(SourcePatch(switch, ()), "the graphs got more (2 -> 6)"))
    advice = [line.text for line in report(out, None) if line.head == "fix: "]
    assert advice == ["keep it a tensor (if: torch.where)"]


EXPERTS = """
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.load = [0] * 2

        def forward(self, x):
            out = torch.zeros_like(x)
            for n in range(2):
                rows = x[:, 0] > n
                self.load[n] += rows.sum().item()
                if rows.any():
                    out[rows] += x[rows].sin()
            return out

    net = torch.compile(Net(), backend="eager")
    for _ in range(3):
        net(torch.arange(8.0).reshape(4, 2))
"""


def test_patches_of_code_that_stays_out_of_the_compiler_are_not_written(shop: Shop) -> None:
    """What the first one calls is compiled, and fewer graphs of that are no gain."""
    shop.write("a.py", EXPERTS)
    said = shop.run("fix", "a.py")
    assert said.code == 1, said.out
    assert "tried, not kept: capture_scalar_outputs" in said.out
    assert "No remedy worked: nothing is written." in said.out
