"""What a graph cost, which model it is of, and which line of torch gave up."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from pytest_graphbreak.model.record import Record  # noqa: E402
from tests.layers.dynamo.tools import window  # noqa: E402


@pytest.fixture(autouse=True)
def _cold() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def observed(run: Any) -> Record:
    with window() as seen:
        run()
    assert not seen[0].errors
    return seen[0]


class Encoder(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(2, 2)

    def forward(self, x: Any) -> Any:
        y = self.inner(x)
        torch._dynamo.graph_break()
        return y + 1


class Decoder(Encoder):
    def forward(self, x: Any) -> Any:
        return self.inner(x) * 2


class Pipeline(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = torch.compile(Encoder(), backend="eager")
        self.stack = torch.nn.ModuleList([torch.compile(Decoder(), backend="eager")])

    def forward(self, x: Any) -> Any:
        return self.stack[0](self.encoder(x))


class NoModule:
    def __init__(self) -> None:
        self.encoder = torch.compile(Encoder(), backend="eager")
        self.decoder = torch.compile(Decoder(), backend="eager")

    def __call__(self, x: Any) -> Any:
        return self.decoder(self.encoder(x))


def test_the_time_of_a_break_is_that_of_the_graphs_after_it() -> None:
    record = observed(lambda: NoModule()(torch.ones(2, 2)))
    (broke,) = record.breaks
    seconds = {graph.cause: graph.seconds for graph in record.graph_list if graph.owner}
    assert all(took is not None and took > 0 for took in seconds.values())
    assert broke.seconds == seconds["break"]


def test_the_time_of_a_compilation_is_counted_once() -> None:
    """A backend that compiles something else: its graph has its own time."""
    other = torch.compile(lambda x: x + 1, backend="eager")

    def backend(gm: Any, inputs: Any) -> Any:
        other(torch.ones(3))
        return gm.forward

    began = time.perf_counter()
    record = observed(lambda: torch.compile(lambda x: x * 2, backend=backend)(torch.ones(2)))
    took = time.perf_counter() - began
    assert len(record.graph_list) == 2
    assert math.fsum(graph.seconds or 0 for graph in record.graph_list) <= took + 0.002


def test_a_recompile_has_the_time_of_its_graph() -> None:
    def sizes() -> None:
        compiled = torch.compile(lambda x: x * 2, backend="eager", dynamic=False)
        compiled(torch.ones(2))
        compiled(torch.ones(3))

    record = observed(sizes)
    (again,) = record.recompile_list
    assert again.seconds is not None
    assert again.seconds == record.graph_list[1].seconds


def called_by_a_function() -> Any:
    decoder = Decoder()
    return torch.compile(lambda x: decoder(x), backend="eager")


@pytest.mark.parametrize(
    ("make", "owners"),
    [
        (NoModule, ["Encoder", "Encoder", "Decoder"]),
        (Pipeline, ["Pipeline", "Pipeline", "Pipeline"]),  # the outermost module
        (called_by_a_function, ["Decoder"]),
        (lambda: torch.compile(lambda x: x + 1, backend="eager"), [None]),
    ],
    ids=["of the model that is called", "a pipeline that is a module", "by a function", "none"],
)
def test_a_graph_is_of_a_model(make: Any, owners: list[str | None]) -> None:
    record = observed(lambda: make()(torch.ones(2, 2)))
    assert [graph.owner for graph in record.graph_list] == owners
    assert {item.owner for item in record.breaks} <= {"Encoder", "Pipeline"}


def test_a_break_names_the_line_of_torch_that_gave_up() -> None:
    def broken(x: Any) -> Any:
        return x + x.sum().item()

    record = observed(lambda: torch.compile(broken, backend="eager")(torch.ones(2)))
    (broke,) = record.breaks
    assert broke.raised.file == "torch/_dynamo/variables/tensor.py"
    assert broke.raised.function.endswith("method_item")
    assert broke.raised.line > 1
