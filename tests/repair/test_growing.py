"""Tensors that get longer in a loop: what is read from their end, also before there is any."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch._dynamo.config
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.rewrite import apply
from tests.examples import examples
from tests.repair.test_sound import bits, loaded

LINE = "if x.sum() > most:"
SOURCE = """\
def f(ids, x, most):
    for i in range(3):
        {body}
        if x.sum() > most:
            break
    return ids, x
"""
# What is read of an empty text: an error in Python as well, or a part of another size.
ROWS = {
    "the last": (["x = x + ids[-1]", "ids = torch.cat([ids, x[None]])"], True),
    "the last, kept": (["x = x + (ids[-1:] + 1).sum(0)", "ids = torch.cat([ids, x[None]])"], False),
    "the last column": (
        ["x = x + ids[:, -1]", "ids = torch.cat([ids, x.unsqueeze(1)], dim=1)"],
        True,
    ),
    "the last of any dimension": (
        ["x = x * ids[:, -1]", "ids = torch.cat([ids, x.unsqueeze(1)], -1)"],
        True,
    ),
    "after the first": (["ids = torch.cat([ids, x[None] * 2])", "x = x + ids[-1]"], True),
    "after the first, kept": (
        ["ids = torch.cat([ids, x[None] * 2])", "x = x + ids[-1:].sum(0)"],
        True,
    ),
    "the last, where there is one": (
        ["x = x + ids[-1] if len(ids) > 0 else x + 1", "ids = torch.cat([ids, x[None]])"],
        True,
    ),
    "the last in a branch": (
        ["if i > 0:", "    x = x - ids[-1]", "ids = torch.cat([ids, x[None]])"],
        True,
    ),
}


@pytest.fixture(autouse=True)
def _compiles_numbers() -> Iterator[None]:
    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_scalar_outputs=True, recompile_limit=99):
        yield


def outcome(function: Any, ids: torch.Tensor, most: float) -> list[Any]:
    """Return the bits of the results, or the type of what is raised."""
    try:
        with torch.no_grad():
            return [bits(one) for one in function(ids.clone(), torch.ones(2), most)]
    except (IndexError, RuntimeError) as error:
        return [IndexError if "is out of bounds for" in str(error) else type(error)]


@pytest.mark.parametrize("name", sorted(ROWS))
def test_the_end_of_what_has_none_raises(name: str) -> None:
    body, exact = ROWS[name]
    source = SOURCE.format(body="\n        ".join(body))
    changed = apply(source, "while_loop", Frame("a.py", "f", 0, LINE))
    assert changed is not None
    plain = loaded(source)["f"]
    run = torch.compile(loaded(changed)["f"], backend="eager", fullgraph=True)
    columns = "dim" in " ".join(body) or ", -1)" in " ".join(body)

    @examples(30)
    @example([], 3.0)
    @example([], -1.0)
    @given(st.lists(st.sampled_from([0.0, 1.0, -2.5]), max_size=3), st.sampled_from([-1.0, 3.0]))
    def check(values: list[float], most: float) -> None:
        rows = torch.tensor(values).reshape(-1, 1).expand(-1, 2)
        ids = rows.T.contiguous() if columns else rows.contiguous()
        wanted, found = outcome(plain, ids, most), outcome(run, ids, most)
        assert found == wanted or (not exact and not values and found == [IndexError])

    check()
