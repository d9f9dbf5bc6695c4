"""Triton's hook on a stand-in of the same shape; the real compiler where it is installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pytest_graphbreak import BudgetExceeded, observe
from pytest_graphbreak.layers import observers
from pytest_graphbreak.layers.triton import Specialization, difference, read_specialization

KERNEL = """
import triton
import triton.language as tl

@triton.jit
def scale(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)
"""


JIT = """
from types import SimpleNamespace

class JITFunction:
    'Compiles for each new key, and calls the hooks as Triton 3.6 does.'

    compiled_hook = None

    def __init__(self, knobs, name, arg_names):
        self.knobs = knobs
        self.name = name
        self.arg_names = arg_names
        self.device_caches = {0: ({}, "target")}

    def launch(
        self, types, aligned = (), **constants
    ):
        named = dict(zip(self.arg_names, types, strict=False))
        numbers = {(self.arg_names.index(name),): value for name, value in constants.items()}
        key = f"{types}{aligned}{constants}"
        if key in self.device_caches[0][0]:
            return
        self.device_caches[0][0][key] = "kernel"
        compiled = {
            "signature": {**named, **dict.fromkeys(constants, "constexpr")},
            "constants": numbers,
            "configs": [{(number,): [["tt.divisibility", 16]] for number in aligned}],
            "num_warps": 4,
        }
        listener = self.knobs.compilation.listener
        if listener is not None:
            listener(src=self, metadata={}, metadata_group={}, times=None, cache_hit=False)
        hook = self.knobs.runtime.jit_post_compile_hook
        if hook is not None:
            hook(
                key=key,
                repr=key,
                fn=SimpleNamespace(module="model", name=self.name, jit_function=self),
                compile=compiled,
                is_manual_warmup=False,
                already_compiled=False,
            )
"""


@pytest.fixture
def knobs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A Triton in the place of the real one, with the hooks of ``triton.knobs``."""
    found: Any = ModuleType("triton.knobs")
    found.runtime = SimpleNamespace(jit_post_compile_hook=None)
    found.compilation = SimpleNamespace(listener=None)
    jit: Any = ModuleType("triton.runtime.jit")
    exec(JIT, vars(jit))
    for name, made in (
        ("triton", ModuleType("triton")),
        ("triton.knobs", found),
        (jit.__name__, jit),
    ):
        made.__spec__ = ModuleSpec(name, None)  # a module that nothing loaded is no layer
        monkeypatch.setitem(sys.modules, name, made)
    yield found
    assert found.runtime.jit_post_compile_hook is None
    assert found.compilation.listener is None


@pytest.fixture
def scale(knobs: Any) -> Any:
    jit: Any = sys.modules["triton.runtime.jit"]
    return jit.JITFunction(knobs, "scale", ("x", "n", "BLOCK"))


def test_a_kernel_has_its_signature_and_the_line_that_launched_it(scale: Any) -> None:
    with observe() as seen:
        scale.launch(("*fp32", "i32"), (0, 1), BLOCK=64)
        scale.launch(("*fp32", "i32"), (0, 1), BLOCK=64)
    record = seen.record
    (graph,) = record.graph_list
    assert (graph.name, graph.cause, graph.cached) == ("model.scale", "kernel", "compiled")
    assert graph.reason == "(x: *fp32, n: i32, BLOCK=64)"
    assert graph.where.code == 'scale.launch(("*fp32", "i32"), (0, 1), BLOCK=64)'
    assert (record.graphs, record.recompiles) == ({"triton": 1}, {})


def test_what_specialised_is_the_reason_of_a_recompile(scale: Any) -> None:
    with observe() as seen:
        scale.launch(("*fp32", "i32"), (0, 1), BLOCK=64)
        scale.launch(("*fp32", "i32"), (0,), BLOCK=64)
        scale.launch(("*fp16", "i32"), (0, 1), BLOCK=64)
        scale.launch(("*fp32", "i32"), (0, 1), BLOCK=128)
        scale.launch(("*fp32", "i64"), (0, 1), BLOCK=128)
    reasons = [item.reason for item in seen.record.recompile_list]
    assert reasons == [
        "model.scale: n is not divisible by 16 now, the one before is",
        "model.scale: x is *fp16, was *fp32",
        "model.scale: BLOCK is 128, was 64",
        "model.scale: n is i64, was i32",
    ]


def test_the_parts_of_a_tuple_have_a_name_each() -> None:
    """Triton gives the type of a tuple as a tuple, and of its parts the paths."""

    def read(first: int, *aligned: tuple[int, ...]) -> Specialization:
        compiled = {
            "signature": {"x": ("constexpr", ("constexpr", "i32"))},
            "constants": {(0, 0): first, (0, 1, 0): 7},
            "configs": [{path: [["tt.divisibility", 16]] for path in aligned}],
        }
        return read_specialization(compiled, SimpleNamespace(arg_names=["x"]))

    before = read(1)
    assert before.text == "(x[0]=1, x[1][0]=7, x[1][1]: i32)"
    assert difference([before], read(2)) == "x[0] is 2, was 1"
    said = "x[1][1] is divisible by 16 now, the one before is not"
    assert difference([before], read(1, (0, 1, 1))) == said


def test_a_kernel_that_specialises_per_step_is_named(scale: Any) -> None:
    def steps() -> None:
        with observe(triton=1):
            for step in range(3):
                scale.launch(("*fp32", "i32"), (0, 1), BLOCK=16 << step)

    with pytest.raises(BudgetExceeded) as raised:
        steps()
    text = str(raised.value)
    assert "3 triton graphs, the block allows 1 (+2)" in text
    assert "BLOCK is 32, was 16" in text
    assert 'scale.launch(("*fp32", "i32"), (0, 1), BLOCK=16 << step)' in text
    with observe(max_graphs=0):
        scale.launch(("*fp32", "i32"), (0, 1), BLOCK=16)


def test_whoever_had_the_hook_is_called_and_keeps_it(knobs: Any, scale: Any) -> None:
    calls: list[Mapping[str, Any]] = []

    def monitor(**kwargs: Any) -> bool:
        calls.append(kwargs)
        return True

    knobs.runtime.jit_post_compile_hook = monitor
    with observe() as seen:
        scale.launch(("*fp32", "i32"), BLOCK=64)
    assert seen.record.graphs == {"triton": 1}
    assert len(calls) == 1
    assert knobs.runtime.jit_post_compile_hook is monitor
    knobs.runtime.jit_post_compile_hook = None


def test_what_inductor_tells_the_hook_is_not_counted(knobs: Any) -> None:
    with observe() as seen:
        knobs.runtime.jit_post_compile_hook(
            key="k", repr="", fn=object(), compile=object(), already_compiled=True
        )
    assert "triton" not in seen.record.layers


def test_a_test_compiles_again_what_one_before_has_compiled(scale: Any) -> None:
    observer = next(one for one in observers() if one.layer == "triton")
    found = []
    for _ in range(2):
        observer.isolate("a test")
        with observe() as seen:
            scale.launch(("*fp32", "i32"), BLOCK=64)
        found.append((seen.record.graphs, seen.record.recompiles))
    assert found == [({"triton": 1}, {})] * 2


def test_the_real_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton compiles for a GPU that is not there: ``warmup`` only needs to know its name."""
    pytest.importorskip("triton", minversion="3.3")
    torch = pytest.importorskip("torch")
    from triton.backends.compiler import GPUTarget
    from triton.runtime.driver import driver

    device = SimpleNamespace(
        get_current_device=lambda: 0,
        get_current_stream=lambda _: 0,
        get_current_target=lambda: GPUTarget("cuda", 80, 32),
        map_python_to_cpp_type=str,
    )
    driver.set_active(device)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "model_of_triton.py").write_text(KERNEL)
    monkeypatch.syspath_prepend(str(tmp_path))
    from model_of_triton import scale  # type: ignore[import-not-found]

    with observe() as seen:
        for size, block in ((1024, 64), (1024, 64), (1001, 64), (1024, 128)):
            scale.warmup(torch.float32, size, BLOCK=block, grid=(1,))
    assert seen.record.graphs == {"triton": 3}
    assert len(next(iter(scale.device_caches.values()))[0]) == 3
    assert [item.reason.partition(": ")[2] for item in seen.record.recompile_list] == [
        "n is not divisible by 16 now, the one before is",
        "BLOCK is 128, was 64",
    ]
