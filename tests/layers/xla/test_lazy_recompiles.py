"""Graphs of lazy tensors that one line compiles again, and older baselines that know them."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

os.environ.setdefault("PJRT_DEVICE", "CPU")
pytest.importorskip("torch_xla")

import torch
import torch_xla

from pytest_graphbreak.model.record import Record
from tests.layers.xla.tools import close, open_window


def watched(run: Callable[[], object], key: str) -> Record:
    torch_xla.sync()
    window = open_window(key)
    run()
    return close(window)


def on_device(*shape: int) -> torch.Tensor:
    return torch.ones(shape).to(torch_xla.device())


def append(cache: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    return torch.cat([cache, new])


def test_a_cache_that_grows_names_the_line_that_makes_it_grow() -> None:
    def run() -> None:
        cache = on_device(4, 8)
        for _ in range(3):
            cache = append(cache, on_device(1, 8))
            torch_xla.sync()

    seen = watched(run, "grows")
    assert [graph.cause for graph in seen.graph_list] == ["sync", "recompile", "recompile"]
    assert seen.recompiles == {"xla": 2}
    first, second = seen.recompile_list
    assert first.reason == (
        "aten::cat makes f32[6,8], made f32[5,8], and explicit sync compiles its graph again"
    )
    assert first.guard.code == "return torch.cat([cache, new])"
    assert first.guard.line == append.__code__.co_firstlineno + 1
    assert "aten::cat makes f32[7,8], made f32[6,8]" in second.reason
    assert first.where.code == "torch_xla.sync()"


def test_a_last_batch_that_is_smaller_is_known_after_a_steady_loop() -> None:
    def run() -> None:
        for size in (4, 4, 4, 3):
            result = on_device(size, 8) * 2
            torch_xla.sync()
            del result

    (item,) = watched(run, "smaller").recompile_list
    assert item.reason.startswith("aten::mul makes f32[3,8], made f32[4,8], ")


def test_many_pending_tensors_are_read_as_one_graph() -> None:
    def run() -> None:
        for size in (4, 3):
            results = [on_device(size, 8) * number for number in range(2, 22)]
            torch_xla.sync()
            del results

    (item,) = watched(run, "many").recompile_list
    assert "f32[3,8], made f32[4,8]" in item.reason


def test_a_helper_that_reads_other_values_is_no_recompile() -> None:
    def read(value: torch.Tensor) -> float:
        return value.item()

    def run() -> None:
        x = on_device(3)
        y = on_device(3)
        read((x + 1).sum())
        read((x * y).sum())

    seen = watched(run, "helper")
    assert [graph.cause for graph in seen.graph_list] == ["access", "access"]
    assert seen.recompiles == {}


def test_lines_of_operations_are_not_kept_after_the_window() -> None:
    before = torch_xla._XLAC._get_ir_debug()

    def run() -> None:
        result = on_device(3) + 1
        torch_xla.sync()
        assert torch_xla._XLAC._get_ir_debug()
        del result

    watched(run, "lines")
    assert torch_xla._XLAC._get_ir_debug() == before


def test_a_line_that_stands_twice_in_a_function_names_the_other() -> None:
    def run() -> None:
        value = on_device(2, 3) * 2
        torch_xla.sync()
        value = value + 1
        torch_xla.sync()

    first, second = watched(run, "twice").graph_list
    start = run.__code__.co_firstlineno
    assert first.reason == f"explicit sync, as at {first.where.file}:{start + 4}"
    assert second.reason == f"explicit sync, as at {first.where.file}:{start + 2}"
