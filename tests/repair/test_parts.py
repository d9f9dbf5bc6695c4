"""Attention to parts of a sequence: as attention to all of it, under a mask."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch._dynamo.testing import CompileCounter

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.rewrite import apply
from pytest_graphbreak.repair.rewrite.scope import UnfitError
from tests.repair.conftest import Shop
from tests.repair.test_sound import loaded

SPLIT = "torch.split(tensor, lengths.tolist(), dim=2) for tensor in (q, k, v)"
CALL = "attend(a, b, c, attention_mask=None, dropout=0.0, is_causal=False, **kwargs)"
HEAD = f"""
def f(q, k, v, lengths, mask=None, **kwargs):
    splits = [
        {SPLIT}
    ]
"""
LISTED = f"""
    outputs = [
        {CALL}[0]
        for a, b, c in zip(*splits)
    ]
    return torch.cat(outputs, dim=1)
"""
LOOPED = f"""
    outputs, weights = [], []
    for a, b, c in zip(*splits):
        output, weight = {CALL}
        outputs.append(output)
        weights.append(weight)
    output = torch.cat(outputs, dim=1)
    return output
"""
JOINED = f"""
    output = torch.cat(
        [
            {CALL}[0]
            for a, b, c in zip(*splits)
        ],
        dim=1,
    )
    return output
"""
GIVEN = LOOPED.replace("attention_mask=None", "attention_mask=mask")
FORMS = {"listed": LISTED, "looped": LOOPED, "joined": JOINED, "given": GIVEN}

ATTENTION = """
def attend(q, k, v, attention_mask, dropout, is_causal):
    out = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=attention_mask, dropout_p=dropout, is_causal=is_causal
    )
    return out.transpose(1, 2), None
"""
BY_HAND = """
def attend(q, k, v, attention_mask, dropout, is_causal):
    scores = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5
    if attention_mask is not None:
        scores = scores + attention_mask
    return (torch.softmax(scores, dim=-1) @ v).transpose(1, 2), None
"""
WEIGHTS = BY_HAND.replace("return (torch", "w = torch").replace(
    "dim=-1) @ v).transpose(1, 2), None", "dim=-1)\n    return (w @ v).transpose(1, 2), w"
)

HOLDS = torch.__version__ >= (2, 13)
"""torch 2.9 guards on sizes that come from values: a graph more, and ``fix`` refuses the patch."""
SWITCHES = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}


def changed(body: str, head: str = HEAD) -> str:
    found = apply(head + body, "one_part", Frame("a.py", "f", 0, SPLIT))
    assert found is not None
    return found


def both(body: str, attention: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    plain, patched = loaded(attention, HEAD + body), loaded(attention, changed(body))
    return plain["f"], patched["f"]


PAIRS = {
    (form, name): both(FORMS[form], attention)
    for form in FORMS
    for name, attention in (("torch", ATTENTION), ("by hand", BY_HAND))
}


def inputs(size: int, seed: int = 0) -> list[torch.Tensor]:
    made = torch.Generator().manual_seed(seed)
    return [torch.randn(1, 2, size, 4, generator=made) for _ in range(3)]


@settings(deadline=None, max_examples=200, print_blob=True)
@given(
    st.sampled_from(sorted(PAIRS)),
    st.integers(0, 7),
    st.lists(st.integers(-2, 4), max_size=4),
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.integers(0, 6),
            st.sampled_from([math.nan, math.inf, -math.inf, 3e38, 1e19]),
        ),
        max_size=2,
    ),
)
@example(("listed", "torch"), 5, [2, 3], [(1, 0, math.nan)])
@example(("listed", "by hand"), 5, [2, 3], [(2, 4, math.inf)])
@example(("looped", "torch"), 5, [5], [])
@example(("joined", "torch"), 5, [0, 5, 0], [])
@example(("joined", "torch"), 0, [], [])
@example(("looped", "torch"), 0, [0], [])
@example(("listed", "torch"), 4, [6, -2], [])
@example(("listed", "torch"), 4, [3], [])
def test_no_input_gives_another_result_without_an_error(
    which: tuple[str, str], size: int, lengths: list[int], odd: list[tuple[int, int, float]]
) -> None:
    plain, patched = PAIRS[which]
    given = inputs(size)
    for tensor, place, value in odd:
        if place < size:
            given[tensor][0, 1, place, 2] = value
    sizes = torch.tensor(lengths, dtype=torch.int32)
    try:
        wanted = plain(*given, sizes)
    except (RuntimeError, ValueError):
        with pytest.raises((RuntimeError, ValueError)):
            patched(*given, sizes)
        return
    try:
        got = patched(*given, sizes)
    except RuntimeError:
        assert not torch.isfinite(torch.cat(given)).all() or odd
        return
    torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("form", sorted(FORMS))
def test_one_graph_holds_for_other_lengths_and_other_numbers_of_parts(form: str) -> None:
    plain, patched = PAIRS[form, "torch"]
    counter = CompileCounter()
    torch._dynamo.reset()
    with torch._dynamo.config.patch(**SWITCHES):
        run = torch.compile(patched, backend=counter, fullgraph=True)
        for lengths in ([2, 3], [1, 4], [4, 4], [2, 2, 3], [1, 1, 1, 5], [9], [3, 0, 3]):
            given, sizes = inputs(sum(lengths), len(lengths)), torch.tensor(lengths)
            torch.testing.assert_close(run(*given, sizes), plain(*given, sizes))
    assert counter.frame_count <= (4 if HOLDS else 7)


def test_gradients_are_those_of_the_parts() -> None:
    plain, patched = PAIRS["listed", "torch"]
    found = []
    for function in (plain, patched):
        given = [one.requires_grad_() for one in inputs(7)]
        function(*given, torch.tensor([3, 4])).square().sum().backward()
        found.append([one.grad for one in given])
    torch.testing.assert_close(*found)


def test_a_mask_that_is_given_raises() -> None:
    _, patched = PAIRS["given", "torch"]
    with pytest.raises(RuntimeError):
        patched(*inputs(5), torch.tensor([2, 3]), torch.zeros(1, 1, 5, 5))


def test_weights_that_are_kept_raise() -> None:
    plain, patched = both(LOOPED, WEIGHTS)
    assert plain(*inputs(5), torch.tensor([2, 3])).shape == (1, 5, 2, 4)
    with pytest.raises(RuntimeError):
        patched(*inputs(5), torch.tensor([2, 3]))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (LISTED.replace("is_causal=False", "is_causal=True"), "one call with attention_mask"),
        (LISTED.replace("attention_mask=None, ", ""), "one call with attention_mask"),
        (LISTED.replace("zip(*splits)", "zip(*splits[:3])"), "not taken one by one"),
        (LISTED + "    print(splits)\n", "in another way than one by one"),
        (LISTED.replace("[0]", ""), "in another way than its output"),
        ("    return splits\n", "in another way than one by one"),
        (LISTED.replace("mask=None", "mask=_(\n            1)"), "not laid out as usual"),
    ],
)
def test_another_use_of_the_parts_is_not_rewritten(body: str, why: str) -> None:
    with pytest.raises(UnfitError, match=why):
        changed(body)


@pytest.mark.parametrize(
    "split",
    [
        "torch.split(tensor, lengths, dim=2) for tensor in (q, k, v)",
        "torch.split(tensor, lengths.tolist(), dim=1) for tensor in (q, k, v)",
        "torch.split(tensor, lengths.tolist()) for tensor in (q, k, v)",
        "torch.split(tensor, lengths.tolist(), dim=2) for tensor in every",
        "torch.split(tensor, lengths.tolist(), dim=2) for tensor in (q, k, v) if tensor.any()",
        "other(tensor, lengths.tolist(), dim=2) for tensor in (q, k, v)",
    ],
)
def test_another_split_is_left_alone(split: str) -> None:
    source = HEAD.replace(SPLIT, split) + LISTED
    assert apply(source, "one_part", Frame("a.py", "f", 0, split)) is None


@pytest.mark.skipif(not HOLDS, reason="torch 2.9 guards on sizes that come from values")
def test_a_model_that_splits_by_lengths_becomes_one_graph(shop: Shop) -> None:
    model = ATTENTION + HEAD.replace("lengths, mask=None, **kwargs", "counts") + LISTED
    model = model.replace(", **kwargs", "").replace(
        "    splits",
        "    lengths = torch.repeat_interleave(counts[:, 1], counts[:, 0])\n    splits",
        1,
    )
    calls = "run(*(torch.randn(1, 2, 7, 4) for _ in range(3)), torch.tensor([[2, 2], [1, 3]]))\n"
    run = 'run = torch.compile(f, backend="eager")\n'
    shop.write("a.py", f"import torch\n\n{model}\n\n{run}{calls}")
    said = shop.run("fix", "a.py")
    assert said.code == 0, said.err
    assert "kept  the parts of the sequence became one, attended to under a mask" in said.out
    assert "an output that is not finite raises RuntimeError" in said.out
    assert "-> 1" in said.out
    assert shop.run("run", "a_fixed.py").code == 0
