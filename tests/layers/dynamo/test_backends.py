"""Every backend of torch.compile is counted alike: each test really compiles with it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from pytest_graphbreak.model.record import Record  # noqa: E402
from pytest_graphbreak.report.counts import cache_counts  # noqa: E402
from pytest_graphbreak.watching.measure import Measurement  # noqa: E402

ROOT = Path(__file__).parents[3]


def broken(x: Any) -> Any:
    y = torch.sin(x)
    print("", end="")
    return y + 1


@pytest.fixture(autouse=True)
def _cold() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def measured(backend: Any, x: Any) -> Record:
    """A function with a break, run twice."""
    compiled = torch.compile(broken, backend=backend)
    with Measurement(ROOT) as seen:
        first = compiled(x)
        again = compiled(x)
    assert torch.allclose(first.cpu(), torch.sin(x.cpu()) + 1)
    assert torch.equal(first.cpu(), again.cpu())
    return seen.close()


def has_two_graphs(record: Record) -> None:
    assert record.errors == ()
    assert record.graphs["dynamo"] == 2
    dynamo = [graph for graph in record.graph_list if graph.layer == "dynamo"]
    assert [(graph.cause, graph.ops) for graph in dynamo] == [("entry", 1), ("break", 1)]
    (broke,) = record.breaks
    assert broke.where.code == 'print("", end="")'
    assert record.eager == ()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_without_a_compiler_below(backend: str) -> None:
    record = measured(backend, torch.ones(3))
    has_two_graphs(record)
    assert not cache_counts("dynamo", record), "nothing is compiled below, and no cache was asked"


def test_a_function_of_the_users() -> None:
    handed: list[Any] = []

    def backend(gm: Any, inputs: Any) -> Any:
        handed.append(gm)
        return gm.forward

    has_two_graphs(measured(backend, torch.ones(3)))
    assert len(handed) == 2


@pytest.mark.skipif(importlib.util.find_spec("torch_xla") is None, reason="needs torch_xla")
def test_openxla(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    import torch_xla

    record = measured("openxla", torch.ones(3).to(torch_xla.device()))
    has_two_graphs(record)
    assert record.graphs["xla"] >= 2
    lowered = [graph.sources for graph in record.graph_list if graph.cause == "fx"]
    assert lowered == [("0/0",), ("1/0",)]
