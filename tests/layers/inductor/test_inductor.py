"""Inductor in full, by its C++ compiler, on a CPU."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.inductor import compared, differences, modules
from pytest_graphbreak.baseline.model import Expected
from pytest_graphbreak.judging.measured import values
from pytest_graphbreak.judging.verdict import judge
from pytest_graphbreak.layers.inductor.texts import Fallback
from pytest_graphbreak.model.budget import Cap, Values
from pytest_graphbreak.model.items import Eager, Frame, Graph
from pytest_graphbreak.model.merging import record_of
from pytest_graphbreak.model.record import Record
from tests.conftest import Suite

pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs g++ on a CPU")

TESTS = """
import pytest
import torch


def step(x):
    return torch.sin(x).sum()


def run(backward=True, mode=None):
    compiled = torch.compile(step, mode=mode, dynamic=False)
    y = compiled(torch.ones(3, requires_grad=True))
    if backward:
        y.backward()
    return compiled


@pytest.mark.max_graphs(inductor=2)
def test_forward_and_backward():
    run()


@pytest.mark.max_graphs(inductor=1)
def test_over():
    run()


def test_skip(graph_budget):
    with graph_budget() as seen:
        run(backward=False, mode="reduce-overhead")
    (eager,) = seen.record.eager
    assert eager.layer == "inductor"
    assert "no CUDA graph: nothing of it runs on a GPU" in eager.reason
    assert eager.where.function == "step"


def test_fallback(graph_budget):
    with graph_budget() as seen:
        torch.compile(fallback)(torch.ones(8))
    (entry,) = seen.record.eager
    assert entry.reason.startswith("aten.histc has no kernel of inductor here")
    assert (entry.layer, entry.where.file, entry.where.line) == ("inductor", "test_it.py", LINE)


@pytest.mark.max_graphs(compiled=0)
def test_warm():
    run()
"""
FALLBACK = """
def fallback(x):
    heads = x.view(1, 2, 4, 1)
    attention = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads)
    return torch.histc(x, 4) + attention.sum()
"""


@pytest.mark.nightly
def test_graphs_kernels_calls_and_skips_equal_torchs_own_cold_and_warm(tmp_path: Path) -> None:
    found = compared(["softmax", "histc"], tmp_path)
    assert differences(found) == []
    cold, warm = found["ours cold"], found["ours warm"]
    assert [cold[name]["loaded"] for name in cold] == [0, 0]
    assert all(warm[name]["loaded"] == warm[name]["graphs"] for name in warm)


@pytest.mark.nightly
def test_all_modules_equal_torchs_own(tmp_path: Path) -> None:
    assert differences(compared([*modules()], tmp_path)) == []


@pytest.fixture
def cold(suite: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Suite]:
    """With an empty cache. Inductor tries each kind of vector instructions by ten compilations,
    which take longer than these programs: here it uses none."""
    import torch._inductor.config as config
    from torch._inductor.cpu_vec_isa import valid_vec_isa_list

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    valid_vec_isa_list.cache_clear()
    with config.patch({"cpp.vec_isa_ok": False}):
        yield suite
    valid_vec_isa_list.cache_clear()


@pytest.mark.once
def test_a_suite_is_capped_where_it_names_inductor(cold: Suite) -> None:
    tests = TESTS.replace("LINE", str(TESTS.count("\n") + 4)) + FALLBACK
    cold.write(tests)
    result = cold.run("-k", "not warm")
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["*2 inductor graphs, the marker allows 1 (+1)*"])


@pytest.mark.once
@pytest.mark.nightly
def test_a_cold_start_is_red_where_none_may_be_compiled(cold: Suite, tmp_path: Path) -> None:
    cold.write(TESTS.replace("LINE", str(TESTS.count("\n") + 4)) + FALLBACK)
    cold.run("-k", "not warm").assert_outcomes(passed=3, failed=1)
    result = cold.run("-k", "test_warm")
    result.assert_outcomes(passed=1)
    shutil.rmtree(tmp_path / "inductor")
    result = cold.run("-k", "test_warm")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*2 inductor graphs compiled and not loaded, the marker allows 0 (+2)*",
            "*no cache had it*",
        ]
    )


BYPASSED = """
import pytest
import torch
import torch._functorch.config as config
from torch._dynamo.utils import counters

class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2

def autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return (x @ x).sum()

def function(x):
    return Double.apply(x).sum()

@pytest.mark.max_graphs(compiled=0)
@pytest.mark.parametrize(("model", "graphs"), [(autocast, 1), (function, 2)])
def test_bypass(model, graphs):
    counters.clear()
    y = torch.compile(model)(torch.ones(8, 8, requires_grad=graphs == 2))
    if graphs == 2:
        y.backward()
    assert counters["aot_autograd"]["autograd_cache_bypass"] == 1
    assert counters["inductor"]["fxgraph_cache_hit"] == graphs * WARM

@pytest.mark.max_graphs(compiled=0)
def test_bundled():
    counters.clear()
    with config.patch(bundled_autograd_cache=True), torch.no_grad():
        torch.compile(lambda x: (x @ x).relu().sum())(torch.ones(8, 8))
    assert counters["aot_autograd"]["autograd_cache_miss"] == 1 - WARM
"""


@pytest.mark.once
def test_a_graph_that_is_traced_at_every_start_is_compiled(cold: Suite) -> None:
    """As torch's counters say: a bypass of AOTAutograd's cache, and a miss of the bundled one.

    The first was reported with autocast (pytorch#192555) and with a ``torch.autograd.Function``
    (fairchem#2162): forward and backward pass are traced anew.
    """
    cold.write(BYPASSED.replace("WARM", "0"))
    first = cold.run()
    first.assert_outcomes(failed=3)
    first.stdout.fnmatch_lines(["*AOTAutograd's cache did not have it"])
    cold.write(BYPASSED.replace("WARM", "1"))
    warm = cold.run()
    warm.assert_outcomes(passed=1, failed=2)
    warm.stdout.fnmatch_lines(
        [
            "*1 inductor graph compiled and not loaded, the marker allows 0 (+1)*",
            "*AOTAutograd bypassed its cache*_enter_autocast at 0x...*",
            "*2 inductor graphs compiled and not loaded, the marker allows 0 (+2)*",
            "*AOTAutograd bypassed its cache*call_function target autograd_function_apply*",
        ]
    )
    assert "no cache had it" not in warm.stdout.str()


# Plants, on records of the same form.

WHERE = Frame("model.py", "Model.forward", 12, "def forward(self, x):")


def record(kernels: int, **lists: Any) -> Record:
    graph = Graph("inductor", "0/0 forward", "forward", ops=kernels, where=WHERE)
    return record_of("inductor", graphs=1, graph_list=(graph,), **lists)


def recorded(before: Record) -> Expected:
    return Expected(values(before), "cpu", {}, recorded=True, own=frozenset(["inductor"]))


def test_a_cuda_graph_that_is_skipped_is_lost_code_under_a_cap_of_its_layer() -> None:
    line = Frame("model.py", "Model.forward", 14, "return x + self.table")
    skipped = record(3, eager=(Eager("inductor", "no CUDA graph: a tensor on the CPU", line),))
    assert judge(skipped, None, Cap(every=1)).name == "ok"
    verdict = judge(skipped, None, Cap(layers={"inductor": 0}))
    (place,) = [one for one in verdict.changes if one.kind == "eager" and not one.total]
    assert place.where == line


def test_a_fallback_more_is_lost_where_the_baseline_names_inductor() -> None:
    line = Frame("model.py", "Model.forward", 14, "return x.sort().values + x.topk(2).values[0]")
    sort, topk = (
        Eager("inductor", Fallback(name, None).words, line) for name in ("aten.sort", "aten.topk")
    )
    before, after = record(3, eager=(sort,)), record(3, eager=(sort, topk, topk))
    assert judge(after, recorded(after)).name == "ok"
    verdict = judge(after, recorded(before))
    (place,) = [one for one in verdict.changes if one.kind == "eager" and not one.total]
    assert (verdict.name, place.where, place.reason) == ("lost", line, topk.reason)
    assert judge(after, Expected(Values(), "cpu", {}, recorded=True)).name == "ok"


def test_a_skip_at_the_line_of_a_fallback_is_an_entry_of_its_own() -> None:
    fallback = Eager("inductor", Fallback("aten.nonzero", None).words, WHERE)
    skipped = Eager("inductor", "no CUDA graph: a tensor on the CPU", WHERE)
    before, after = record(3, eager=(fallback,)), record(3, eager=(fallback, skipped))
    verdict = judge(after, recorded(before))
    assert verdict.name == "lost"
    assert [one.reason for one in verdict.changes if not one.total] == [skipped.reason]
