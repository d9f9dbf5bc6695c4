"""FX graphs that a backend runs by itself, without torch_xla's bridge."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

os.environ.setdefault("PJRT_DEVICE", "CPU")
pytest.importorskip("torch_xla")

import torch
import torch_xla

from tests.layers.xla.tools import close, ones, open_window


def test_a_graph_module_that_outlives_its_window_is_no_recompile_in_the_next() -> None:
    kept: list[Any] = []

    def backend(gm: Any, inputs: Any) -> Any:
        kept.append(gm)
        return gm

    def first(value: torch.Tensor) -> None:
        value = torch.compile(lambda x: x * 3 + 1, backend=backend)(value)
        torch_xla.sync()

    def later(value: torch.Tensor) -> None:
        value = kept[0](value)
        torch_xla.sync()

    def causes(run: Callable[[torch.Tensor], None], size: int) -> list[str]:
        value = ones(size)
        window = open_window(f"{run.__name__} {size}")
        run(value)
        return [graph.cause for graph in close(window).graph_list if graph.layer == "xla"]

    causes(first, 3)
    assert causes(later, 5) == causes(later, 7) == ["fx"]
