"""Loops that read and set by their round: one graph with equal results, or a reason why not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch._dynamo.config
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.rewrite import apply
from pytest_graphbreak.repair.rewrite.scope import UnfitError
from tests.examples import examples
from tests.repair.test_sound import bits, loaded

LINE = "for i in range(start, int(end)):"
ROUNDS = {
    "reads a row": "h = h * 0.5 + x[i]",
    "reads a column": "h = h + x[:, i].sum()",
    "reads the row before": "h = h + x[i - 1] * 2",
    "reads a row that there is": "h = h + x[i] if i < 4 else h - 1",
    "reads a row in a branch": "if i < 4:\n    h = h * 0.5\n    h = h + x[i]",
    "reads what a column chooses": "h = h + x[out[:, i].long() - i].sum(0)",
    "sets a row": "out[i] = h + i\nh = h + 1",
    "sets a column": "out[:, i] = x[:, i - 1] - 1",
    "sets a column to a number": "out[:, i] = 2.5",
    "adds to a row": "out[i] += x[i]",
    "sets an argument": "x[i] = x[i - 1] * 2",
    "changes a row of an argument": "x[i] *= 2\nh = h + x[0]",
}
LEFT = {
    "keeps a row that it changes": "row = x[i]\nx[i] = h + 5\nh = h + row",
    "changes a view with a name": "row = x[i]\nrow.add_(1)\nh = h + x.sum()",
    "changes a view in an operator": "row = x[i].view(-1)\nrow += 1\nh = h + x.sum()",
    "changes a view": "x[i].add_(1)\nh = h + x.sum()",
    "changes a part of a view": "x[i][0] = 7\nh = h + x.sum()",
    "changes one of two views": "rows = (x[i], h)\nx[i] = 3\nh = h + rows[0]",
    "writes into a view": "torch.add(h, 1, out=x[i])\nh = h + x.sum()",
    "reads a part of its size": "h = h + x[:i].sum()",
    "reads one element": "h = h + x[i, 0]",
}
SOURCE = """\
def f(x, start, end):
    h = torch.zeros(3)
    out = torch.zeros(4, 3)
    {line}
        {body}
    {then}
    return h, out, x
"""


def source_of(body: str, then: str = "") -> str:
    return SOURCE.format(line=LINE, body=body.replace("\n", "\n        "), then=then)


def changed(body: str, then: str = "") -> str | None:
    return apply(source_of(body, then), "while_loop", Frame("a.py", "f", 0, LINE))


@pytest.fixture(autouse=True)
def _compiles_numbers() -> Iterator[None]:
    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_scalar_outputs=True, recompile_limit=99):
        yield


def outcome(function: Any, values: list[float], start: int, end: int) -> list[Any]:
    """Return the bits of the results, or what is raised: the first line, without the graph's."""
    x = torch.tensor(values).reshape(4, 3)
    try:
        with torch.no_grad():
            return [bits(one) for one in function(x, start, torch.tensor(end))]
    except (IndexError, RuntimeError) as error:
        # A column is set as a row of a view: there it is in dimension 0.
        return [type(error), re.sub("dimension .", "a dimension", str(error).partition("\n")[0])]


@pytest.mark.parametrize("name", sorted(ROUNDS))
def test_what_the_round_chooses_is_chosen_in_the_graph(name: str) -> None:
    """Also before the first row, where it counts from the end, and after the last: IndexError."""
    source = changed(ROUNDS[name])
    assert source is not None
    plain, patched = loaded(source_of(ROUNDS[name]))["f"], loaded(source)["f"]
    run = torch.compile(patched, backend="eager", fullgraph=True)

    @examples(60)
    @example([0.0] * 12, 0, 3)
    @example([1.0] * 12, 1, 6)
    @given(
        st.lists(st.sampled_from([0.0, -0.0, 1.0, -2.5, float("nan")]), min_size=12, max_size=12),
        st.integers(-2, 2),
        st.integers(-1, 6),
    )
    def check(values: list[float], start: int, end: int) -> None:
        assert outcome(run, values, start, end) == outcome(plain, values, start, end)

    check()


@pytest.mark.parametrize("name", sorted(LEFT))
def test_what_would_be_another_result_is_left(name: str) -> None:
    with pytest.raises(UnfitError, match=r"view|needs the number of the round"):
        changed(LEFT[name])


def test_a_view_that_is_changed_after_the_loop_is_left() -> None:
    assert changed("h = x[i] + 1", "h.add_(1)") is not None
    with pytest.raises(UnfitError, match="h is a view of what is changed"):
        changed("h = x[i]", "h.add_(1)")
    with pytest.raises(UnfitError, match="h is a view of what is changed"):
        changed("h = x[i]", "x.add_(1)")
