"""Why each device graph exists, where, and in which words, with real torch_xla."""

from __future__ import annotations

import os
from typing import Any

import pytest

os.environ.setdefault("PJRT_DEVICE", "CPU")
pytest.importorskip("torch_xla")

from cases.xla import CASES
from pytest_graphbreak.model.items import Graph
from pytest_graphbreak.model.layers import CAUSES
from tests.layers.xla.tools import python, runs, with_windows

pytestmark = pytest.mark.usefixtures("_forks_run_cases")

ONE_PROCESS = ("order", "1")
ORDERS = [pytest.param(("forked",), marks=pytest.mark.nightly), ONE_PROCESS]


def seen_in(how: tuple[str, ...], name: str) -> list[Graph]:
    return [Graph.from_dict(graph) for graph in runs(*how)[name]["graph_list"]]


@pytest.mark.parametrize("how", ORDERS, ids=" ".join)
def test_every_graph_has_one_cause(how: tuple[str, ...]) -> None:
    for name, result in runs(*how).items():
        graphs = seen_in(how, name)
        assert len(graphs) == result["graphs"], name
        assert {graph.cached for graph in graphs} <= {"compiled"}, name
        assert {graph.cause for graph in graphs} <= set(CAUSES["xla"]) - {"other"}, name
        assert [graph.name for graph in graphs] == [str(n) for n in range(len(graphs))], name


@pytest.mark.parametrize("how", ORDERS, ids=" ".join)
@pytest.mark.parametrize("name", CASES)
def test_causes_places_and_reasons_are_as_written(name: str, how: tuple[str, ...]) -> None:
    graphs = seen_in(how, name)
    case = CASES[name]
    assert [(graph.cause, graph.where.code) for graph in graphs] == [
        (why.cause, why.code) for why in case.why
    ]
    for graph, why in zip(graphs, case.why, strict=True):
        assert why.reason in graph.reason
        assert graph.where.file == "cases/xla.py"
    assert runs(*how)[name]["recompiles"] == case.recompiles


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("compiled_backward_with_break", "fx 0/0, fx 1/0, pending 1/0, backward 1/0, backward 0/0"),
        ("compiled_growing_input", "fx 0/0, recompile 0/1, recompile 0/2"),
        ("compiled_then_read", "fx 0/0, access"),
        # Of backends that run them lazily.
        ("lazily_executed_training", "fx 0/0, backward 0/0"),
        ("lazily_executed_with_item", "fx 0/0, fx 1/0"),
        ("marked_training", "fx 0/0, pending 0/0, backward 0/0"),
    ],
)
def test_device_graphs_name_the_graphs_of_dynamo_that_they_came_from(
    name: str, expected: str
) -> None:
    graphs = [" ".join((graph.cause, *graph.sources)) for graph in seen_in(ONE_PROCESS, name)]
    assert ", ".join(graphs) == expected


def test_device_graphs_have_the_stack_that_led_to_them() -> None:
    def stack(name: str, number: int = -1) -> list[str]:
        graph = seen_in(ONE_PROCESS, name)[number]
        assert graph.stack[-1] == graph.where
        return [frame.code for frame in graph.stack if frame.file == "cases/xla.py"]

    assert stack("compiled_three_calls", 0)[-1] == "return x * 2 + 1"
    assert stack("compiled_cpu_op_in_a_helper") == [
        "compiled(outer)(tensor(8))",
        "return helper_on_cpu(torch.sin(x)) * 2",
        "return torch.histc(x, 4)",
    ]
    assert stack("lazily_executed_training") == ["loss.backward()  # lazily"]
    assert stack("lazily_executed_histc") == [
        'through(with_histc, "lazy")(tensor(8))',
        "h = torch.histc(a, 4)",
    ]
    assert stack("compiled_library_module") == ["compiled(chain)(tensor(2, 3))"]
    for name in CASES:
        for graph in seen_in(ONE_PROCESS, name):
            assert graph.stack[-1:] == (graph.where,), name


def test_device_graphs_have_their_numbers() -> None:
    (whole,) = seen_in(ONE_PROCESS, "compiled_three_calls")
    assert (whole.ops, whole.inputs, whole.outputs) == (2, 2, 1)
    assert len(whole.hash) == 32
    probe, rest = seen_in(ONE_PROCESS, "compiled_split_in_a_module")
    assert (probe.module, rest.module) == ("stats", "stats")
    (module,) = seen_in(ONE_PROCESS, "compiled_exported_program")
    assert module.module is None or "linear" in module.module


@pytest.mark.nightly
@pytest.mark.parametrize("order", ["1", "2"])
def test_hashes_are_those_of_the_test_whatever_ran_before(order: str) -> None:
    def hashes(how: tuple[str, ...]) -> dict[str, list[Any]]:
        # Sorted: two threads at once compile in no certain order.
        return {name: sorted(str(graph.hash) for graph in seen_in(how, name)) for name in CASES}

    assert hashes(("forked",)) == hashes(("order", order))


def test_what_compiled_before_we_looked_leaves_only_the_lazy_causes_unknown() -> None:
    out = python(
        with_windows("""
    graph(2)
    window = open_window()
    y = torch.compile(lambda x: torch.histc(torch.sin(x), 4) * 2, backend="openxla")(
        torch.ones(3).to("xla") + 5
    )
    y.sum().item()
    seen = window.close()
    print(seen.graphs["xla"], seen.errors)
    for made in seen.graph_list:
        print(made.cause, "|", made.where.code, "|", made.reason)
    """)
    )
    lines = out.splitlines()
    assert lines[0] == "4 ()"
    assert lines[1].startswith("pending |")
    assert "`x` was still pending" in lines[1]
    assert "aten::histc runs on the CPU" in lines[2]
    assert [line.split(" ")[0] for line in lines[1:]] == ["pending", "split", "split", "other"]
    assert "torch_xla had compiled before it was observed" in lines[4]


@pytest.mark.usefixtures("xla_forks")
def test_without_reasons_there_are_counts_only() -> None:
    out = python(
        with_windows("""
    import ctypes
    window = XlaObserver(reasons=False).open(Places(Path.cwd()))
    print(ctypes.CDLL(None).getenv(b"PT_XLA_DEBUG_FILE"))
    run = torch.compile(lambda x: torch.sin(x) * 2, backend="openxla", dynamic=True)
    run(torch.ones(3).to("xla"))
    run(torch.ones(4).to("xla")).cpu()
    seen = window.close()
    print(*seen.graphs.values(), *seen.recompiles.values(), seen.graph_list, seen.errors)
    """)
    )
    assert out == "0\n2 1 () ()\n"


@pytest.mark.usefixtures("xla_forks")
def test_a_run_in_a_directory_called_torch_has_its_line() -> None:
    out = python(
        with_windows("""
    file = str(Path.cwd() / "tests" / "torch" / "test_a.py")
    code = "def call(): return (torch.ones(3).to('xla') + 1).sum().item()"
    exec(compile(code, file, "exec"))
    window = open_window()
    call()
    print({line.where.name for line in window.close().execution_list})
    """)
    )
    assert out == "{'tests/torch/test_a.py::call'}\n"


def test_a_lazy_loop_is_read_as_one_line() -> None:
    graphs = seen_in(ONE_PROCESS, "read_at_each_step")
    assert len({graph.where.key for graph in graphs}) == 1
