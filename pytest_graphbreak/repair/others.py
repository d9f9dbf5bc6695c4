"""Draws the inputs that a program did not use itself, as its users may vary them.

They have other values, masks padded by row, other positions, images of another shape, another batch
size, other lengths of text, and other sizes if sizes vary in the program.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.utils._pytree import tree_map

from pytest_graphbreak.repair import sizes

VARIANTS: Final = ("negated", "random", "zero", "large", "fewer")
"""Inputs of the same sizes, for the branches that the program did not take."""
BATCHES: Final = ("batch 2", "batch 3")
"""Inputs with the rows of the batch two and three times."""
LENGTHS: Final = ("shorter above", "shorter below", "shorter", "longer")
"""Further inputs if sizes vary: sizes between and beyond, with values all above or below zero."""
TEXTS: Final = ("length 1", "length 2")
"""Inputs with text that is one and two tokens shorter, if no size varies in the program."""
RESIZED: Final = (*BATCHES, *TEXTS)
"""Inputs of sizes that the program does not use itself, for which it may be compiled again."""
FIRST: Final = (BATCHES[0], TEXTS[0])
"""Inputs for which one compilation is expected: then the size that varies becomes dynamic."""
_TEXT: Final = re.compile(r"(?:\b|_)(?:ids|mask)(?:\b|')")
"""Names of arguments of tokens: ``input_ids``, ``attention_mask``."""
_SHORTEST: Final = 8
"""The number of tokens that are not cut."""
_NAMED: Final = {
    "positions": re.compile(r"(?:\b|_)pos(?:ition)?(?:s|_ids?)?(?:\b|')"),
    "shapes": re.compile(r"_thw|_hw|(?:\b|_)(?:shapes|sizes)(?:\b|')"),
}
"""Further inputs by the names of integer arguments: ``position_ids``, ``image_grid_thw``."""


@dataclass(frozen=True, slots=True)
class OtherInputs:
    """The arguments of a call, and the dimensions of them that vary (``sizes.varying``)."""

    model: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    dims: dict[str, dict[int, int]]

    def kinds(self) -> tuple[str, ...]:
        """Return the kinds of other inputs that these arguments have."""
        given = list(sizes.tensors(self.model, self.args, self.kwargs))
        named = [kind for kind in _NAMED if any(_is(kind, *one) for one in given)]
        batches = BATCHES if any(one.dim() > 1 for _, one in given) else ()
        texts = TEXTS if not self.dims and _length(given) else ()
        return (*VARIANTS, *named, *(LENGTHS if self.dims else ()), *batches, *texts)

    def drawn(self, kind: str) -> tuple[Any, Any]:
        """Return other arguments of a kind, which share nothing with the first."""
        given = list(sizes.tensors(self.model, self.args, self.kwargs))
        rows = Counter(one.shape[0] for _, one in given if one.dim() > 1)
        batch = min(rows, key=lambda size: (-rows[size], size), default=0)
        others: dict[int, torch.Tensor] = {}
        for name, leaf in given:
            other = leaf.detach()
            if kind in BATCHES:
                other = _repeated(name, other, batch, int(kind[-1]))
            elif kind in _NAMED:
                other = _renamed(kind, other) if _is(kind, name, leaf) else other
            elif kind in TEXTS:
                other = _cut(name, other, _length(given), int(kind[-1]))
            elif kind in LENGTHS:
                other = _resized(other, self.dims.get(name, {}), kind)
            others[id(leaf)] = other.clone().requires_grad_(leaf.requires_grad)

        def drawn(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            other = others.get(id(leaf), leaf)
            return other if kind in (*_NAMED, *TEXTS) else _varied(other, kind)

        changed: tuple[Any, Any] = tree_map(drawn, (self.args, self.kwargs))
        return changed


def _is(kind: str, name: str, leaf: torch.Tensor) -> bool:
    """Return whether a tensor is one of positions, or of the shapes of images, by its name."""
    whole = not leaf.is_floating_point() and not leaf.is_complex() and leaf.dtype != torch.bool
    fits = kind == "positions" or (leaf.dim() == 2 and leaf.shape[-1] in (2, 3))
    return whole and fits and _NAMED[kind].search(name) is not None


def _renamed(kind: str, leaf: torch.Tensor) -> torch.Tensor:
    """Return the next positions, or half the height and twice the width for the first image."""
    if kind == "positions":
        return leaf + 1
    other = leaf.clone()
    high, wide = other[:1, -2], other[:1, -1]
    even = high % 2 == 0
    other[:1, -2:] = torch.stack(
        [torch.where(even, high // 2, high), torch.where(even, wide * 2, wide)], -1
    )
    return other


def _repeated(name: str, leaf: torch.Tensor, batch: int, times: int) -> torch.Tensor:
    """Return a tensor with its rows several times, in the dimension of the batch."""
    if not leaf.dim() or not batch or (leaf.dim() == 1 and _is("positions", name, leaf)):
        return leaf
    if leaf.shape[0] == batch or (leaf.dim() > 1 and leaf.shape[0] % batch == 0):
        return torch.cat([leaf] * times)
    if leaf.dim() > 1 and leaf.shape[1] == batch:
        return torch.cat([leaf] * times, 1)
    return leaf


def _length(given: Sequence[tuple[str, torch.Tensor]]) -> int:
    """Return the number of tokens of the text among the arguments; 0 if there is none, or few."""
    sizes = (
        one.shape[1]
        for name, one in given
        if one.dim() == 2 and not one.is_floating_point() and _TEXT.search(name)
    )
    return next((size for size in sizes if size >= _SHORTEST), 0)


def _cut(name: str, leaf: torch.Tensor, length: int, by: int) -> torch.Tensor:
    """Return a tensor without its last tokens, in each dimension that is one of tokens."""
    for dim, size in enumerate(leaf.shape):
        tokens = dim == 1 or (dim > 1 and not leaf.is_floating_point())
        if size == length and (tokens or _is("positions", name, leaf)):
            leaf = leaf.narrow(dim, 0, size - by)
    return leaf


def _resized(leaf: torch.Tensor, dims: dict[int, int], kind: str) -> torch.Tensor:
    """Return a tensor with the sizes that vary one shorter, or twice as long."""
    for dim in dims:
        size = leaf.shape[dim]
        if kind == "longer":
            leaf = torch.cat([leaf, leaf], dim)
        elif size > 2:
            leaf = leaf.narrow(dim, 0, size - 1)
    return leaf


def _varied(leaf: torch.Tensor, kind: str) -> torch.Tensor:
    """Return another tensor of the same shape. Integers stay in range: they may be indices.

    Rolling or flipping does not change a tensor whose values are all equal, such as a mask; so for
    ``fewer`` the second half is halved, or set to false.
    """
    value = leaf.detach()
    if kind == "fewer" and not leaf.is_floating_point() and not leaf.is_complex():
        return _fewer(value)
    if leaf.is_floating_point():
        if kind == "negated":
            value = -value
        elif kind == "large":
            value = value * 1000
        elif kind == "zero":
            value = torch.zeros_like(value)
        else:
            drawn = torch.randn(leaf.shape, dtype=torch.float32)
            if kind.endswith(("above", "below")):
                drawn = (drawn.abs() + 0.5) * (1 if kind.endswith("above") else -1)
            value = drawn.to(leaf.device, leaf.dtype)
    elif kind not in (*LENGTHS, *BATCHES):
        if leaf.dtype == torch.bool:
            value = value if kind == "random" else ~value
        elif leaf.dim():
            value = value.roll(1, -1) if kind != "zero" else value.flip(-1)
    same = torch.empty_like(leaf.detach()).copy_(value)  # with the strides, which guards check
    return same.requires_grad_(leaf.requires_grad)


def _fewer(value: torch.Tensor) -> torch.Tensor:
    """Return a tensor with the second half of each row halved, or all of it if it has no rows.

    A mask is padded to another length in each row.
    """
    value = value.clone()
    if value.dim() > 1 and value.numel() and bool(((value == 0) | (value == 1)).all()):
        size, rows = value.shape[-1], value.reshape(-1, value.shape[-1])
        for number, row in enumerate(rows):
            row[size // 2 + number % max(1, size - size // 2) :] = 0
        return rows.reshape(value.shape)
    rest = value[..., value.shape[-1] // 2 :] if value.dim() else value
    rest.copy_(torch.zeros_like(rest) if value.dtype == torch.bool else rest // 2)
    return value
