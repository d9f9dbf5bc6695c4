"""What the property tests of remedies share: programs as they are and rewritten, run side by side.

A rewrite may raise where the program does not, and then a run refuses it; it never gives anything
else. What fails shows the rewritten source first.
"""

from __future__ import annotations

import math
import struct
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.patch import Change, Preamble, UnfitError
from tests.examples import examples

Function = Callable[..., Any]

VALUES = st.sampled_from([0.0, -0.0, 1.0, -1.5, 2.0, math.inf, -math.inf, math.nan])
LISTS = st.lists(VALUES, min_size=2, max_size=2)
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64]
TENSORS = st.builds(
    lambda values, dtype, shape: (
        torch.tensor(values).nan_to_num(7, 9, -9).to(dtype).reshape(shape)
        if dtype == torch.int64
        else torch.tensor(values, dtype=dtype).reshape(shape)
    ),
    LISTS,
    st.sampled_from(DTYPES),
    st.sampled_from([(2,), (2, 1), (1, 2)]),
)
FOLDER = tempfile.TemporaryDirectory()
PARTS = count()


def loaded(*sources: str | Preamble, **space: Any) -> dict[str, Any]:
    """Run sources as files: of what has none, torch 2.9 drops calls that are to be reordered."""
    space |= {"torch": torch}
    for source in sources:
        text = source.source if isinstance(source, Preamble) else source
        file = Path(FOLDER.name, f"part{next(PARTS)}.py")
        file.write_text(text)
        exec(compile(text, file, "exec"), space)
    return space


def bits(value: Any) -> list[Any]:
    """The values of a tensor to the last bit, where NaN is one value; others as they are."""
    if not isinstance(value, torch.Tensor):
        return [repr(value)]
    flat = value.detach().to(torch.float64).reshape(-1).tolist()
    numbers = ("nan" if math.isnan(one) else struct.pack("d", one) for one in flat)
    return [str(value.dtype), *value.shape, *numbers]


def rewritten(change: Change, body: str, line: str = "", head: str = "def f(x, y):") -> str:
    """Return a function with a line of its body rewritten. Raises ``UnfitError``.

    The line is the first that a remedy is for, unless one is given.
    """
    source = source_of(body, head)
    code = line or next(one for one in body.splitlines() if is_a_place(one.strip())).strip()
    number = [one.strip() for one in source.splitlines()].index(code) + 1
    changed = change(source, Frame("a.py", "f", number, code))
    assert changed is not None
    return changed


def source_of(body: str, head: str = "def f(x, y):") -> str:
    return f"{head}\n" + "".join(f"    {one}\n" for one in body.splitlines())


def is_a_place(line: str) -> bool:
    return " if " in line or line.startswith(("if ", "while ", "assert "))


def outcome(function: Function, inputs: tuple[Any, ...], *, grads: bool = False) -> list[Any]:
    """Return all that a caller sees: results, arguments, gradients, the next random number."""
    given = [one.clone() if isinstance(one, torch.Tensor) else one for one in inputs]
    grads = grads and all(one.is_floating_point() for one in given)
    for one in given if grads else ():
        one.requires_grad_()
    torch.manual_seed(0)
    with torch.set_grad_enabled(grads):
        found = function(*given)
    results = found if isinstance(found, tuple) else (found,)
    seen = [bits(one) for one in (*results, *given)]
    if grads and results[0].requires_grad:
        results[0].sum().backward()
        # Of what the side that runs does not use: torch.cond gives zeros, plain code nothing.
        # Plus zero: the sign of a gradient that is zero depends on the order of its sums.
        zeros = (torch.zeros_like(one) if one.grad is None else one.grad + 0.0 for one in given)
        seen += map(bits, zeros)
    return [*seen, torch.rand(()).item()]


class Pair:
    """A function, and what a remedy made of it, compiled as one graph unless ``compiled=False``."""

    def __init__(
        self,
        plain: str,
        changed: str | None,
        *helpers: Preamble,
        compiled: bool = True,
        **space: Any,
    ) -> None:
        assert changed is not None
        self.changed = changed
        self.equal = 0
        """For how many inputs the rewritten function did not raise."""
        self.errors: list[str] = []
        """What it raised for the others."""
        self._plain = loaded(plain, **space)["f"]
        self._run = loaded(*helpers, changed, **space)["f"]
        if compiled:
            self._run = torch.compile(self._run, backend="eager", fullgraph=True)

    def check(self, *inputs: Any, grads: bool = False) -> None:
        """Fail, with the rewritten source first, if the two differ where the second computes."""
        try:
            seen = outcome(self._run, inputs, grads=grads)
        except Exception as error:
            self.errors.append(f"{type(error).__name__}: {error}")
            return
        self.equal += 1
        wanted = outcome(self._plain, inputs, grads=grads)
        if seen != wanted:
            pytest.fail(f"\n{self.changed}\n{inputs}\n{seen}\nwithout it\n{wanted}", pytrace=False)

    def check_errors(self, words: str | None) -> None:
        """Fail unless an error has some words; or, with None, unless it computed for an input."""
        if words is None:
            assert self.equal, self.errors
        else:
            assert any(words in error for error in self.errors), self.errors


def compare(
    change: Change,
    body: str,
    unfit: str | None,
    *helpers: Preamble,
    most: int = 20,
    compiled: bool = True,
    **space: Any,
) -> Pair | None:
    """Compare a function with what a remedy makes of it, for drawn inputs, and return both.

    ``most`` is for how many inputs, at night. None if the remedy refuses it, in words of ``unfit``,
    as it has to where these are given.
    """
    if unfit is not None:
        with pytest.raises(UnfitError, match=unfit):
            rewritten(change, body)
        return None
    changed = rewritten(change, body)
    pair = Pair(source_of(body), changed, *helpers, compiled=compiled, **space)

    @settings(examples(most), phases=(Phase.explicit, Phase.generate))
    @example(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), False)
    @example(torch.tensor([-1.0, -2.0]), torch.tensor([-3.0, 4.0]), False)
    @given(TENSORS, TENSORS, st.booleans())
    def check(x: torch.Tensor, y: torch.Tensor, grads: bool) -> None:
        pair.check(x, y, grads=grads)

    check()
    return pair
