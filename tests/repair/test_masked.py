"""What is assigned to the places of a mask, as ``torch.where``."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.rewrite import apply
from pytest_graphbreak.repair.rewrite.scope import UnfitError
from tests.repair.test_sound import bits, loaded

FORMS = {
    "x[mask] = v.expand_as(x[mask])": (),
    "x[mask] = v.expand_as(x[mask]).to(x.dtype)": (),
    "x[mask] = y[mask]": (),
    "if mask.any():": ("x[mask] = v.expand_as(x[mask]).to(x.device, x.dtype)",),
    "if torch.any(mask):": ("x[mask] = y[mask].to(x.dtype)",),
    "if bool(mask.any()):": ("x[mask] = v",),
}
OTHERS = {
    "x[mask] = y[other]": (),
    "x[mask, 0] = v.expand_as(x[mask, 0])": (),
    "x[mask] = v": (),
    "if other.any():": ("x[mask] = v",),
    "if mask.any() :": ("x[mask] = v", "y = v"),
    "if  mask.any():": ("x[mask] = open(v)",),
}


def source_of(head: str, body: tuple[str, ...]) -> tuple[str, Frame]:
    lines = "".join(f"        {line}\n" for line in body)
    text = f"def f(x, y, v, mask, other=None):\n    {head}\n{lines}    return x * 1\n"
    return text, Frame("a.py", "f", 0, head)


SHAPES = st.sampled_from([(4,), (), (1, 4), (2, 4), (3, 4), (2, 3, 4), (1,)])
DTYPES = st.sampled_from([torch.float32, torch.float64, torch.bfloat16])
MASKS = st.sampled_from(
    [
        torch.tensor([[True, False, True], [False, True, False]]),
        torch.zeros(2, 3, dtype=torch.bool),
        torch.tensor([True, False]),
        torch.ones(2, 3, 4, dtype=torch.bool),
        torch.tensor([0, 1]),
        torch.ones(2, 1, dtype=torch.bool),
    ]
)


@pytest.mark.parametrize("head", sorted(FORMS))
def test_a_masked_assignment_is_one_graph_with_the_same_result(head: str) -> None:
    source, where = source_of(head, FORMS[head])
    changed = apply(source, "masked", where)
    assert changed is not None
    torch._dynamo.reset()
    plain, patched = loaded(source)["f"], loaded(changed)["f"]
    run = torch.compile(patched, backend="eager", fullgraph=True)
    held = 0

    def outcome(function: Any, *given: torch.Tensor) -> list[Any]:
        mine = [one.clone() for one in given]
        found = function(*mine)
        return [bits(found), *map(bits, mine)]

    @settings(max_examples=12, deadline=None, phases=(Phase.explicit, Phase.generate))
    @example((4,), torch.float32, torch.tensor([[True, False, True], [False, True, False]]))
    @given(SHAPES, DTYPES, MASKS)
    def check(shape: tuple[int, ...], dtype: torch.dtype, mask: torch.Tensor) -> None:
        nonlocal held
        x = torch.arange(24.0).reshape(2, 3, 4)
        y = torch.full((2, 3, 4), float("nan"), dtype=dtype)
        v = torch.arange(100.0, 100.0 + torch.Size(shape).numel()).reshape(shape).to(dtype)
        try:
            found = outcome(run, x, y, v, mask)
        except Exception:
            return
        held += 1
        assert found == outcome(plain, x, y, v, mask)

    check()
    assert held


@pytest.mark.parametrize("head", sorted(OTHERS))
def test_another_assignment_stays(head: str) -> None:
    source, where = source_of(head, OTHERS[head])
    with pytest.raises(UnfitError):
        apply(source, "masked", where)
