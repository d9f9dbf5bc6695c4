"""Loops that make indices for each row of a table: as indices for all rows at once."""

from __future__ import annotations

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

LOOP = "for t, h, w in grid.tolist():"
ZIPPED = "for (t, h, w), m in zip(grid.tolist(), merge.tolist()):"

POSITIONS = """
rows, columns = torch.meshgrid(
    torch.arange(h, device=device), torch.arange(w, device=device), indexing="ij"
)
blocks = (h // m, m, w // m, m)
rows = rows.reshape(blocks).transpose(1, 2).flatten()
columns = columns.reshape(blocks).transpose(1, 2).flatten()
if temporal:
    times = torch.arange(t, device=device).repeat_interleave(h * w)
    parts.append(torch.stack([times, rows.repeat(t), columns.repeat(t)], dim=-1))
else:
    parts.append(torch.stack([rows, columns], dim=-1).repeat(t, 1))
"""
FRAMES = """
t, h, w = int(t), int(h), int(w)
frames = torch.arange(t, device=device) + int(t > 1)
parts.append(frames.repeat_interleave(h * w))
"""
TURNED = """
size = h + 1
found = torch.arange(t * size * w, device=device).view(t, size, w).permute(2, 0, 1)
parts.append((3 * found.reshape(-1) - h) % 7)
"""
SHIFTED = """
parts.append(torch.arange(h, h + w * step, device=device, dtype=torch.long).repeat(t) // 2)
"""
SPLIT = """
parts.append(torch.arange(w, device=device).reshape(h, t).transpose(0, 1).flatten())
"""
BODIES = {
    "positions": (ZIPPED, POSITIONS),
    "frames": (LOOP, FRAMES),
    "turned": (LOOP, TURNED),
    "shifted": (LOOP, SHIFTED),
    "split": (LOOP, SPLIT),
}
HOLDS = torch.__version__ >= (2, 13)
"""torch 2.9 guards on sizes that come from values: a graph more, and ``fix`` refuses the patch."""
SWITCHES = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}


def source(loop: str, body: str, end: str = "return torch.cat(parts, dim=0)") -> str:
    lines = "".join(f"        {line}\n" for line in body.strip().splitlines())
    head = "def f(grid, merge, temporal=False, step=2):\n    device = grid.device\n    parts = []\n"
    return f"{head}    {loop}\n{lines}    {end}\n"


def changed(loop: str, body: str, end: str = "return torch.cat(parts, dim=0)") -> str:
    found = apply(source(loop, body, end), "all_rows", Frame("a.py", "f", 0, loop))
    assert found is not None
    return found


def both(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    plain, patched = loaded(source(*BODIES[name])), loaded(changed(*BODIES[name]))
    return plain["f"], patched["f"]


PAIRS = {name: both(name) for name in BODIES}
NUMBERS = st.integers(-2, 5)
ROWS = st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS, st.integers(-1, 3)), max_size=4)
FITTING = st.lists(
    st.builds(
        lambda t, h, w, m: (t, h * m, w * m, m),
        *(st.integers(0, 3) for _ in range(3)),
        st.integers(1, 3),
    ),
    min_size=1,
    max_size=4,
)


@settings(deadline=None, max_examples=400, print_blob=True)
@given(
    st.sampled_from(sorted(PAIRS)),
    st.one_of(ROWS, FITTING),
    st.booleans(),
    st.integers(-1, 3),
    st.sampled_from([torch.int64, torch.int32, torch.float32]),
)
@example("positions", [(1, 4, 6, 2), (2, 2, 2, 1)], True, 1, torch.int64)
@example("positions", [(1, 4, 6, 2), (2, 2, 3, 2)], False, 1, torch.int64)
@example("positions", [(1, 0, 0, 0)], False, 1, torch.int64)
@example("positions", [(-1, -2, 2, 1)], True, 1, torch.int64)
@example("frames", [(1, 1, 1, 1), (3, 2, 2, 1)], True, 1, torch.int32)
@example("split", [(2, 3, 6, 1), (1, 4, 4, 1)], True, 1, torch.int64)
@example("split", [(2, 3, 5, 1)], True, 1, torch.int64)
@example("split", [(-2, -3, 6, 1)], True, 1, torch.int64)
@example("turned", [], True, 1, torch.int64)
def test_no_table_gives_another_result_without_an_error(
    name: str, rows: list[tuple[int, ...]], temporal: bool, step: int, dtype: torch.dtype
) -> None:
    plain, patched = PAIRS[name]
    table = torch.tensor(rows, dtype=dtype).reshape(-1, 4)
    given = (table[:, :3], table[:, 3], temporal, step)
    try:
        wanted = plain(*given)
    except (RuntimeError, ZeroDivisionError, TypeError, ValueError):
        with pytest.raises((RuntimeError, TypeError)):
            patched(*given)
        return
    try:
        found = patched(*given)
    except (RuntimeError, TypeError):
        assert dtype == torch.float32 or any(one < 1 for row in rows for one in (*row, step))
        return
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    assert found.equal(wanted)


@pytest.mark.parametrize("name", sorted(PAIRS))
def test_one_graph_holds_for_other_numbers_and_numbers_of_rows(name: str) -> None:
    plain, patched = PAIRS[name]
    counter = CompileCounter()
    torch._dynamo.reset()
    tables = ([(1, 2, 2, 1)], [(2, 4, 2, 2), (1, 2, 6, 2)], [(1, 3, 3, 3)] * 3, [(3, 2, 2, 1)] * 7)
    with torch._dynamo.config.patch(**SWITCHES):
        run = torch.compile(patched, backend=counter, fullgraph=True)
        for rows in tables:
            table = torch.tensor(rows)
            if name == "split":
                table[:, 2] = table[:, 0] * table[:, 1]
            given = (table[:, :3].clone(), table[:, 3].clone())
            assert run(*given).equal(plain(*given))
    assert counter.frame_count <= (3 if HOLDS else 4)


def test_the_rows_of_two_tables_are_as_many() -> None:
    _, patched = PAIRS["positions"]
    with pytest.raises(RuntimeError):
        patched(torch.tensor([[1, 2, 2], [1, 2, 2]]), torch.tensor([1]))


@pytest.mark.parametrize(
    ("loop", "body", "why"),
    [
        (LOOP, "start = start + t\nparts.append(torch.arange(start, device=device))", "carried"),
        (LOOP, "start += t\nparts.append(torch.arange(t, device=device))", "does more than"),
        (LOOP, "parts.append(torch.arange(t))", "device"),
        (LOOP, "parts.append(torch.arange(t, device=device).reshape(h, w))", "no list of indices"),
        (LOOP, "parts.append(torch.arange(step, device=device))", "the same number of indices"),
        (LOOP, "parts.append(torch.rand(t, device=device))", "is no index"),
        (LOOP, "parts.append(torch.arange(t / 2, device=device))", "is no index"),
        (LOOP, "parts.append(torch.arange(t, device=device).view(h, -1))", "left to be worked out"),
        (LOOP, "parts.append(torch.arange(t, device=device) + torch.arange(t))", "device"),
        (LOOP, "parts.append(torch.arange(t, device=device).cumsum(0))", "cumsum of indices"),
        (LOOP, "parts.append(torch.arange(0, t, 2, device=device))", "other arguments"),
        (LOOP, "parts.append(torch.arange(t, device=device, dtype=torch.int8))", "other arguments"),
        (LOOP, "if t > 1:\n    parts.append(torch.arange(t, device=device))", "depends on the row"),
        (LOOP, "print(t)", "does not end with"),
        ("for row in other(grid.tolist()):", SHIFTED, "something else than rows"),
        ("for n, (t, h, w) in enumerate(grid.tolist()):", SHIFTED, "something else than rows"),
        ("for t, h, w in self.grid.tolist():", SHIFTED, "something else than rows"),
        ("for t, h, t in grid.tolist():", SHIFTED, "one name"),
    ],
)
def test_a_body_that_does_more_is_not_rewritten(loop: str, body: str, why: str) -> None:
    with pytest.raises(UnfitError, match=why):
        changed(loop, body)


@pytest.mark.parametrize(
    "end",
    [
        "return parts",
        "return torch.cat(parts, dim=1)",
        "parts = torch.cat(parts)\n    return parts",
        "return torch.cat([*parts, grid])",
    ],
)
def test_a_list_that_is_used_otherwise_is_not_rewritten(end: str) -> None:
    with pytest.raises(UnfitError, match="not joined and returned"):
        changed(LOOP, FRAMES, end)


def test_a_list_of_the_caller_is_not_rewritten() -> None:
    text = source(LOOP, FRAMES).replace("parts = []", "parts = merge")
    with pytest.raises(UnfitError, match="no new list"):
        apply(text, "all_rows", Frame("a.py", "f", 0, LOOP))


@pytest.mark.skipif(not HOLDS, reason="torch 2.9 guards on sizes that come from values")
def test_a_program_that_loops_over_rows_becomes_one_graph(shop: Shop) -> None:
    call = "run(torch.tensor([[1, 4, 6], [2, 2, 2]]), torch.tensor([2, 1]))\n"
    run = 'run = torch.compile(f, backend="eager")\n'
    shop.write("a.py", f"import torch\n\n{source(ZIPPED, POSITIONS)}\n\n{run}{call}")
    said = shop.run("fix", "a.py")
    assert said.code == 0, said.err
    assert "kept  the loop over rows became indices of all rows" in said.out
    assert "-> 1" in said.out
    assert "compiled again" not in said.out
