"""``graph_budget_infra``: places are named in tests and models, not in what runs the tests."""

from __future__ import annotations

import importlib.util
import sys
import textwrap
from typing import Any

import pytest

from tests.conftest import Suite

pytest.importorskip("torch")

INI = """
    [pytest]
    pythonpath = .
    graph_budget_infra =
        tests_infra/runners
        tests_infra/mode
"""
RUNNER = """
    import torch

    def run_graph_test(function, *inputs, backend="eager"):
        return called(torch.compile(function, backend=backend), inputs)

    def called(compiled, inputs):
        return compiled(*inputs)

    def logged(function):
        def wrapper(*inputs):
            print("running")
            return function(*inputs)
        return wrapper
"""


@pytest.fixture
def infra(suite: Suite) -> Suite:
    suite.path.joinpath("pytest.ini").write_text(textwrap.dedent(INI))
    for name in ("runners", "mode"):
        suite.path.joinpath("tests_infra", name).mkdir(parents=True)
    suite.path.joinpath("tests_infra", "runners", "running.py").write_text(textwrap.dedent(RUNNER))
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests_infra"]:
        del sys.modules[name]  # of another test, from its directory
    return suite


def places(found: list[dict[str, Any]]) -> list[str]:
    return [f"{frame['file']} {frame['code']}" for frame in found]


@pytest.mark.once
def test_the_line_of_the_test_is_named_and_not_that_of_its_infrastructure(infra: Suite) -> None:
    infra.write(
        """
        import torch
        from tests_infra.runners.running import logged, run_graph_test

        def model(x):
            y = torch.sin(x)
            print("hello")
            return y + 1

        def test_of_a_model():
            run_graph_test(model, torch.ones(3))

        def test_of_a_wrapper():
            run_graph_test(logged(torch.sin), torch.ones(3))  # wrapped
        """
    )
    (model, wrapper) = infra.report()["tests"]
    (found,) = model["breaks"]
    assert places([found["where"]]) == ['test_it.py print("hello")']
    assert places(found["stack"]) == [
        "test_it.py run_graph_test(model, torch.ones(3))",
        'test_it.py print("hello")',
    ]
    (found,) = wrapper["breaks"]
    line = "run_graph_test(logged(torch.sin), torch.ones(3))  # wrapped"
    assert places([found["where"]]) == [f"test_it.py {line}"]
    files = {graph["where"]["file"] for test in (model, wrapper) for graph in test["graph_list"]}
    assert files == {"test_it.py"}
    (plain, _) = infra.report("-o", "graph_budget_infra=")["tests"]
    assert "tests_infra/runners/running.py return compiled(*inputs)" in places(
        plain["breaks"][0]["stack"]
    )


@pytest.mark.skipif(importlib.util.find_spec("torch_xla") is None, reason="needs torch_xla")
def test_device_graphs_show_their_stack_without_it(
    infra: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    infra.path.joinpath("tests_infra", "mode", "reading.py").write_text(
        "def as_numbers(tensor):\n    return tensor.cpu()\n"
    )
    infra.write(
        """
        import pytest, torch, torch_xla
        from tests_infra.mode.reading import as_numbers
        from tests_infra.runners.running import run_graph_test

        def histogram(x):
            return torch.histc(torch.sin(x), 4) * 2

        def inner(x):
            return as_numbers(x + 1)

        @pytest.mark.max_graphs(xla=1)
        def test_of_a_split():
            run_graph_test(histogram, torch.ones(8).to("xla"), backend="openxla")

        def test_of_a_read():
            inner(torch.ones(2).to("xla"))
        """
    )
    (split, read) = infra.report()["tests"]
    (graph, _) = split["graph_list"][-2:]
    assert graph["cause"] == "split"
    assert places(graph["stack"]) == [
        'test_it.py run_graph_test(histogram, torch.ones(8).to("xla"), backend="openxla")',
        "test_it.py return torch.histc(torch.sin(x), 4) * 2",
    ]
    assert "      from test_it.py:" in split["message"]
    (graph,) = read["graph_list"]
    assert graph["reason"] == "value read by .cpu()"
    assert places(graph["stack"]) == [
        'test_it.py inner(torch.ones(2).to("xla"))',
        "test_it.py return as_numbers(x + 1)",
    ]
