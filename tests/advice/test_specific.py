"""Advice that names what the reason names."""

from __future__ import annotations

import pytest

from pytest_graphbreak import advice
from pytest_graphbreak.advice.match import SHORT_LIMIT
from pytest_graphbreak.layers.inductor.eager import Fallback, skip_words
from pytest_graphbreak.model.record import Eager, Frame, Graph, Recompile

pytestmark = pytest.mark.once


def short(item: Graph | Recompile) -> str:
    """Return the line that is shown of an item: there is one, and it fits."""
    line = advice.short(item)
    assert line is not None
    assert len(line) <= SHORT_LIMIT
    return line


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("tensor 'x' size mismatch at index 1. expected 8, actual 9", "mark_dynamic(x, 1)"),
        ("tensor 'L['ids']' size mismatch at index 2. expected 8, actual 9", "(ids, 2)"),
        ("tensor 'batch['ids']' size mismatch at index 0. expected 8, actual 9", "batch['ids'], 0"),
        ("tensor 'x + 1 of <lambda>' size mismatch at index 3. expected 8, actual 9", "(x, 3)"),
        (f"tensor '{'y' * 60}' size mismatch at index 1. expected 8, actual 9", "(x, 1)"),
        ("tensor 'x' size mismatch at index 1. expected 1, actual 9", "mark_unbacked(x, 1)"),
        ("2 <= x.size()[1]", "mark_unbacked(x, 1)"),
        ("tensor 'x' rank mismatch. expected 1, actual 2", "one number of dimensions"),
        *(
            (f"tensor '{subject}' size mismatch at index 1. expected 8, actual 9", said)
            for subject, said in (
                ("kwargs['input_ids']", "mark_dynamic(input_ids, 1)"),
                ("L['kwargs']['input_ids']", "mark_dynamic(input_ids, 1)"),
                ("args[1]", "mark_dynamic(args[1], 1)"),
                ("batch['x']['y']", "mark_dynamic(batch['x']['y'], 1)"),
                ("G['TABLE']", "mark_dynamic(TABLE, 1)"),
                ("self._buffers['scales']", "mark_dynamic(self.scales, 1)"),
                ("self._modules['layers']._modules['0'].cache", "(self.layers[0].cache, 1)"),
                ("self.model.decoder.key_cache[0]", "mark_dynamic(self.model.decoder.key_cache[0]"),
                (f"self.{'y' * 60}[0]", "mark_dynamic(x, 1)"),
            )
        ),
        ("2 <= kwargs['input_ids'].size()[1]", "mark_unbacked(input_ids, 1)"),
        ("2 <= self._buffers['scales'].size()[1]", "mark_unbacked(self.scales, 1)"),
        ("2 <= self.decoder.key_cache[0].size()[2]", "(self.decoder.key_cache[0], 2)"),
        ("len(self.lin._forward_hooks) == 1", "register hooks once"),
        ("len(self.param_groups[0]) == 9", "the keys and the groups of the optimizer"),
        ("self.weight.grad is not None", "zero_grad(set_to_none=False)"),
        ("mask is None", "pass it in every call, or in none"),
        ("self.blocks[0].drop.p == 0.1 (self.blocks[0].drop.p is 0.2 now)", "rand_like"),
        ("self.blocks[0].scale == 0.1 (self.blocks[0].scale is 0.2 now)", "register_buffer"),
        ("self.param_groups[0]['lr'] == 0.1", "lr=torch.tensor(...)"),
        ("2 <= x.size()[0] <= 15 (x has shape [0, 8] now)", "mark_unbacked(x, 0)"),
        ("2 <= x.size()[1] <= 15 (x has shape [4, 1] now)", "mark_unbacked(x, 1)"),
        ("2 <= x.size()[0] <= 15 (x has shape [20, 1] now)", "take the branch on the size away"),
        ("not hasattr(self, '_calls')", "in __init__"),
        ("tensor 'self.up.weight' requires_grad mismatch. expected requires_grad=0", "freeze"),
        ("tensor 'x' requires_grad mismatch. expected requires_grad=0", "x.detach()"),
        ("Cache line invalidated because optimizer got deallocated", "make the optimizer once"),
        ("n == 3 (n is 4 now)", "pass it as a tensor"),
    ],
)
def test_the_advice_fits_the_guard(reason: str, said: str) -> None:
    assert said in short(Recompile("dynamo", "f", reason))


@pytest.mark.parametrize(
    ("cause", "reason", "said"),
    [
        ("recompile", "`x` went from float32 to bfloat16", "one dtype"),
        ("recompile", "`x` went from shape [4] to [5]", "pad inputs"),
        (
            "recompile",
            "the number in aten::mul went from 2 to 3, which is a constant here",
            "tensor",
        ),
        ("split", "a tensor was moved to the CPU by .cpu()", "keep it on the device"),
        ("split", "CPU tensor of shape [3] from `self.bias`", "register_buffer"),
        (
            "recompile",
            "a shape differs, and value read by `while` compiles its graph again",
            "torch_xla.sync() at the end of each round",
        ),
        ("access", "value read by `while`", "torch_xla.sync() at the end of each round"),
        ("access", "value read by .item()", "read values once"),
        ("sync", "torch_xla.step()", "torch_xla.step() around the whole step"),
        ("sync", "torch_xla.compile() of `f`", "one torch_xla.sync()"),
    ],
)
def test_a_graph_of_a_device(cause: str, reason: str, said: str) -> None:
    assert said in short(Graph("xla", "0", cause, reason=reason))


@pytest.mark.parametrize(
    ("reason", "family", "said"),
    [
        ("the static argument self: Net object before, Net object now", "jax-static", "__eq__"),
        (
            "the static argument self: another Net object, which is not equal",
            "jax-static",
            "__eq__",
        ),
        ("the static argument n: 3 before, 4 now", "jax-static", "pass it as an array"),
        ("the static argument mode: 'a' before, 'b' now", "jax-static", "a few values"),
        (
            "at n: int32[] of weak type before, float32[] of weak type now",
            "jax-dtype",
            "float(n)",
        ),
        ("at n: float32[] before, float32[] of weak type now", "jax-weak-type", "jnp.asarray"),
        ("at n: float32[] of weak type before, float32[] now", "jax-weak-type", "jnp.asarray"),
        ("at n: int32[] before, float32[] of weak type now", "jax-weak-type", "jnp.asarray"),
        (
            "at n: float32[3] of weak type before, float32[4] of weak type now",
            "jax-shape",
            "buckets",
        ),
        ("at n: int32[3] before, float32[3] now", "jax-dtype", "x.astype"),
    ],
)
def test_a_function_of_jax(reason: str, family: str, said: str) -> None:
    item = Recompile("jax", "f", reason)
    found = advice.family(item)
    assert found is not None
    assert found.name == family
    assert said in short(item)


@pytest.mark.parametrize(
    ("layer", "reason", "said"),
    [
        ("cudagraph", "the same CUDAGraph was captured again", "capture once"),
        ("cudagraph", "static input data pointer changed", "copy_ into static tensors"),
        ("triton", "m.scale: n is not divisible by 16 now, the one before is", "multiples of 16"),
        ("triton", "m.scale: n is 1, was i32", "a number that is 1 is a constant"),
        ("triton", "m.scale: n is i32, was 1", "a number that is 1 is a constant"),
        ("triton", "m.scale: x is *fp16, was *fp32", "one type before the launch"),
        ("triton", "m.scale: n is i64, was i32", "one type before the launch"),
        ("triton", "m.scale: BLOCK is 128, was 64", "a tl.constexpr is a kernel for each value"),
        ("triton", "m.scale: num_warps is 8, was 4", "one value of this option"),
        ("triton", "m.scale: its options or its source changed", "the same types and options"),
    ],
)
def test_layers_below_dynamo_have_their_own_advice(layer: str, reason: str, said: str) -> None:
    assert said in short(Recompile(layer, "m.scale", reason))
    assert advice.short(Graph(layer, "m.scale", "recompile", reason=reason)) is None


@pytest.mark.parametrize(
    ("reason", "name"),
    [
        (Fallback("aten.nonzero", None).words, "fallback"),
        (skip_words("skipping cudagraphs due to multiple devices: cpu"), "cudagraph-skip"),
    ],
)
def test_what_left_a_graph_of_inductor_is_no_break_of_dynamo(reason: str, name: str) -> None:
    assert advice.topic(Eager("inductor", reason, Frame("a.py", "f", 3, "x.nonzero()"))) == name
