"""Advice that names what the reason names."""

from __future__ import annotations

import pytest

from pytest_graphbreak import advice
from pytest_graphbreak.advice.reasons import SHORT_LIMIT
from pytest_graphbreak.layers.inductor.skips import skip_words
from pytest_graphbreak.layers.inductor.texts import Fallback
from pytest_graphbreak.model.items import Eager, Frame, Graph, Recompile

pytestmark = pytest.mark.once


def short(item: Graph | Recompile) -> str:
    """Return the line that is shown of an item; empty if there is none."""
    line = "".join(advice.shorts(item))
    assert len(line) <= SHORT_LIMIT
    return line


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("tensor 'x' size mismatch at index 1. expected 8, actual 9", "mark_dynamic(x, 1)"),
        ("tensor 'ids' size mismatch at index 2. expected 8, actual 9", "mark_dynamic(ids, 2)"),
        (f"tensor '{'y' * 900}' size mismatch at index 1. expected 8, actual 9", "(x, 1)"),
        (f"tensor 'x' size mismatch at index {'1' * 5000}. expected 8, actual 9", ""),
        ("tensor 'x' size mismatch at index 1. expected 8, actual 1", ""),
        ("tensor 'x' size mismatch at index 1. expected 1, actual 9", ""),
        ("tensor 'self.cache[0]' size mismatch at index 1. expected 8, actual 9", ""),
        ("2 <= x.size()[1]", ""),
        ("tensor 'x' rank mismatch. expected 1, actual 2", ""),
        ("self.weight.grad is not None", "in __init__"),
        ("self.scores is None", "in __init__"),
        ("not ___dict_contains('k', self.__dict__)", "in __init__"),
        ("not hasattr(self, '_calls')", "in __init__"),
        ("mask is None", ""),
        ("self.blocks[0].scale == 0.1 (self.blocks[0].scale is 0.2 now)", "register_buffer"),
        ("n == 3 (n is 4 now)", "pass it as a tensor"),
        ("mode == 'a'", ""),
        ("n is of type float now, int before", ""),
    ],
)
def test_the_advice_fits_the_guard(reason: str, said: str) -> None:
    line = short(Recompile("dynamo", "f", reason))
    assert said in line if said else not line


@pytest.mark.parametrize(
    ("cause", "reason", "said"),
    [
        ("recompile", "`x` went from float32 to bfloat16", ""),
        ("recompile", "2 inputs, 3 before, and a number", ""),
        ("split", "CPU tensor of shape [3] from `self.bias`", "register_buffer"),
        ("access", "value read by .item()", ""),
        ("access", "value read by aten::nonzero", "torch.where"),
        ("sync", "torch_xla.step()", ""),
    ],
)
def test_a_graph_of_a_device(cause: str, reason: str, said: str) -> None:
    line = short(Graph("xla", "0", cause, reason=reason))
    assert said in line if said else not line


@pytest.mark.parametrize(
    ("reason", "family", "said"),
    [
        ("the static argument rate: another Rate object, which is not equal", "jax-static", "once"),
        ("the static argument rate.peak: 0.1 before, 0.05 now", "jax-static", "as an array"),
        ("the static argument n: 3 before, 4 now", "jax-static", "pass it as an array"),
        ("the static argument mode: 'a' before, 'b' now", "jax-static", ""),
        ("at n: float32[] before, float32[] of weak type now", "jax-weak-type", "np.float32"),
        ("at n: int32[] of weak type before, float32[] of weak type now", "jax-dtype", ""),
        ("at n: float32[3] before, float32[4] now", "jax-shape", "pad"),
    ],
)
def test_a_function_of_jax(reason: str, family: str, said: str) -> None:
    item = Recompile("jax", "f", reason)
    assert advice.name(item) == family
    assert said in short(item) if said else not short(item)


@pytest.mark.parametrize(
    ("reason", "name"),
    [
        (Fallback("aten.nonzero", None).words, "fallback"),
        (skip_words("skipping cudagraphs due to multiple devices: cpu"), "cudagraph-skip"),
    ],
)
def test_what_left_a_graph_of_inductor_is_no_break_of_dynamo(reason: str, name: str) -> None:
    assert advice.topic(Eager("inductor", reason, Frame("a.py", "f", 3, "x.nonzero()"))) == name
