"""Which arguments of a call a script states as source, and which it loads from a file."""

from __future__ import annotations

import pytest

from pytest_graphbreak.repair.cut import arguments_source

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    "tensor",
    [
        "torch.tensor([1.5], dtype=torch.float32)",
        "torch.tensor([], dtype=torch.float32)",
        "torch.tensor([[], []], dtype=torch.float32)",
        "torch.tensor([(1+2j)], dtype=torch.complex64)",
    ],
)
def test_a_small_tensor_is_stated(tensor: str) -> None:
    assert arguments_source([eval(tensor)], {}) == tensor


@pytest.mark.parametrize(
    "tensor",
    [
        "torch.zeros(0, 3)",
        "torch.zeros(2, 0, 3)",
        "torch.tensor([float('nan')])",
        "torch.tensor([complex('nan')])",
        "torch.zeros(17)",
    ],
)
def test_what_source_would_not_give_again_is_loaded(tensor: str) -> None:
    assert arguments_source([eval(tensor)], {}) is None
