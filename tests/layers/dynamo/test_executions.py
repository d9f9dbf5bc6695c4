"""Runs of graphs: as many as calls of the functions that the backend returned, in any order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from cases.dynamo import Case  # noqa: E402
from cases.dynamo_oracle import OWN_BACKEND  # noqa: E402
from pytest_graphbreak import observe  # noqa: E402
from pytest_graphbreak.model.places import Places  # noqa: E402
from tests.examples import sample  # noqa: E402
from tests.layers.dynamo.tools import HERE, _quiet, closed, observer, watch  # noqa: E402, F401


class Oracle:
    """A backend like ``eager``, which counts the calls of what it returns."""

    def __init__(self) -> None:
        self._calls: list[None] = []

    @property
    def calls(self) -> int:
        return len(self._calls)

    def __call__(self, gm: Any, inputs: Any) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            self._calls.append(None)  # in one step, whatever the threads do
            return gm.forward(*args)

        return run

    def compile(self, function: Any, **options: Any) -> Any:
        return torch.compile(function, **{"backend": self, **options})


MEASURED = [case for case in HERE if case.name not in OWN_BACKEND]


@pytest.mark.parametrize("case", sample(MEASURED, MEASURED[::3]), ids=lambda case: case.name)
def test_runs_are_calls_of_what_the_backend_returned(case: Case) -> None:
    oracle = Oracle()
    seen = watch(case, oracle.compile)
    assert seen.executions["dynamo"] == oracle.calls
    assert sum(item.count for item in seen.execution_list) == oracle.calls
    for item in seen.execution_list:
        assert item.graph in {graph.name.partition("#")[0] for graph in seen.graph_list}
        assert item.where.code, item


def test_runs_in_threads_and_of_what_was_compiled_before() -> None:
    oracle = Oracle()
    compiled = oracle.compile(lambda x: torch.sin(x) + 1)
    x = torch.ones(3)
    compiled(x)

    def often() -> None:
        for _ in range(200):
            compiled(x)

    with observe() as seen:
        threads = [threading.Thread(target=often) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert oracle.calls == 801
    assert seen.record.graphs == {}
    assert seen.record.executions["dynamo"] == 800
    assert {item.where.code for item in seen.record.execution_list} == {"compiled(x)"}


def test_windows_nest_and_the_function_is_put_back() -> None:
    oracle = Oracle()
    compiled = oracle.compile(lambda x: torch.sin(x) + 1)
    x = torch.ones(3)
    compiled(x)
    before = {name: value for name, value in globals().items() if "__compiled_fn" in name}
    with observe() as outer:
        compiled(x)
        with observe() as inner:
            compiled(x)
        compiled(x)
    assert inner.record.executions["dynamo"] == 1
    assert outer.record.executions["dynamo"] == 3
    assert {name: globals()[name] for name in before} == before
    compiled(x)
    assert outer.record.executions["dynamo"] == 3


def test_a_directory_called_torch_is_not_torchs(tmp_path: Path) -> None:
    """As tests/torch of tt-xla is."""
    file = tmp_path / "tests" / "torch" / "test_a.py"
    program: dict[str, Any] = {"compiled": Oracle().compile(torch.sin), "x": torch.ones(3)}
    exec(compile("def call():\n    return compiled(x)\n", str(file), "exec"), program)
    window = observer.open(Places(tmp_path))
    program["call"]()
    seen = closed(window)
    places = [(run.where.file, run.where.line) for run in seen.execution_list]
    assert places == [("tests/torch/test_a.py", 2)]
