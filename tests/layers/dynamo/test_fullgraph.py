"""``fullgraph=True`` captures, since torch 2.10, what breaks a graph without it.

docs/explanation/counting.md says so, and what follows for a test. Run on torch 2.6, 2.9, 2.10, 2.13
and 2.14; read in the sources of 2.7, 2.8, 2.11 and 2.12.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._dynamo

from pytest_graphbreak import observe
from pytest_graphbreak.layers.dynamo.private import minor

CAPTURES = minor(torch.__version__) >= (2, 10)


def scaled(x: Any) -> Any:
    return x * x.sum().item()


def positive(x: Any) -> Any:
    return x[x > 0] * 2


def branching(x: Any) -> Any:
    return x + 1 if x.sum() > 0 else x


def made(function: Callable[..., Any], **options: Any) -> tuple[int, int]:
    """Graphs and graph breaks of one call from cold."""
    torch._dynamo.reset()
    with observe() as seen:
        torch.compile(function, backend="eager", **options)(torch.ones(3))
    return seen.record.graphs.get("dynamo", 0), seen.breaks


@pytest.mark.parametrize("function", [scaled, positive])
def test_it_hides_the_break_that_users_have(function: Callable[..., Any]) -> None:
    assert made(function) == (2, 1)
    if CAPTURES:
        assert made(function, fullgraph=True) == (1, 0)
    else:
        with pytest.raises(torch._dynamo.exc.Unsupported):
            made(function, fullgraph=True)


def test_a_branch_on_data_raises_in_every_torch() -> None:
    assert made(branching) == (2, 1)
    with pytest.raises((torch._dynamo.exc.Unsupported, torch._dynamo.exc.UserError)):
        made(branching, fullgraph=True)
