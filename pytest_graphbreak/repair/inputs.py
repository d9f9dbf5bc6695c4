"""Draws inputs that a program did not use itself, as its users may vary them.

Nothing is known of what the program takes: an input for which the uncompiled program raises is none
of its inputs, and a patched program may raise for it as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from msgspec import Struct
from torch.utils._pytree import tree_map

from pytest_graphbreak.repair import sizes
from pytest_graphbreak.repair.copies import copy_of

OWN: Final = "the first inputs again"
VALUES: Final = (OWN, "negated", "random", "zero", "large", "NaN", "padded")
"""Inputs of the same sizes, for the branches that the program did not take."""
_BATCHES: Final = ("a batch of one", "a batch twice as large")
_LENGTHS: Final = ("a shorter length", "a longer length")
GRADIENTS: Final = ("inputs that require gradients", "negated, with gradients")
"""Where the inputs of the program require none: a patched program may refuse these."""
_DOUBLE: Final = "inputs of float64"

Named = tuple[str, torch.Tensor]


class DrawnInputs(Struct, frozen=True):
    """The arguments of a call, and the dimensions of them that vary (``sizes.varying``)."""

    model: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    dims: dict[str, dict[int, int]]

    def kinds(self, *, values_only: bool, grad: bool) -> tuple[str, ...]:
        """Return what may be drawn; without ``values_only`` also what compiles again."""
        tensors = self._tensors()
        floats = [leaf for _, leaf in tensors if leaf.is_floating_point()]
        if not tensors or values_only:
            return VALUES if tensors else (OWN,)
        batches = _BATCHES if _batch(tensors) else ()
        lengths = _LENGTHS if self._lengths(tensors) else ()
        double = (_DOUBLE,) if any(leaf.dtype == torch.float32 for leaf in floats) else ()
        gradients = GRADIENTS if floats and grad else ()
        return (*VALUES, *batches, *lengths, *gradients, *double)

    def draw(self, kind: str) -> tuple[Any, Any]:
        """Return other arguments of a kind, which share nothing with the first."""
        if kind == OWN:
            copies: tuple[Any, Any] = copy_of((self.args, self.kwargs))
            return copies
        change = self._changes(kind)
        others = {
            id(leaf): _copy_like(change(name, leaf), leaf, kind) for name, leaf in self._tensors()
        }
        floats = [item for item in others.values() if item.is_floating_point()]

        def replacement(leaf: Any) -> Any:
            return others.get(id(leaf), leaf)

        changed: tuple[Any, Any] = tree_map(replacement, (self.args, self.kwargs))
        for item in floats if kind in GRADIENTS else ():
            item.requires_grad_()
        return changed

    def _tensors(self) -> list[Named]:
        return list(sizes.tensors(self.model, self.args, self.kwargs))

    def _changes(self, kind: str) -> Callable[[str, torch.Tensor], torch.Tensor]:
        """Return what makes a tensor of a kind out of one with a name."""
        tensors = self._tensors()
        if kind in _BATCHES:
            batch, resize = _batch(tensors), _first if kind == _BATCHES[0] else _twice
            return lambda _, leaf: _rebatch(leaf, batch, resize)
        if kind in _LENGTHS:
            dims, step = self._lengths(tensors), _shorter if kind == _LENGTHS[0] else _twice
            return lambda name, leaf: _resize(leaf, dims.get(name, ()), step)
        if kind == _DOUBLE:
            return lambda _, leaf: leaf.double() if leaf.dtype == torch.float32 else leaf
        if kind in GRADIENTS:
            return lambda _, leaf: leaf if kind == GRADIENTS[0] else _vary(leaf, "negated")
        return lambda _, leaf: _vary(leaf, kind)

    def _lengths(self, tensors: Sequence[Named]) -> dict[str, Sequence[int]]:
        """Return the dimensions that vary in the program, else those of the most common length.

        A length is a second size, and changes wherever it stands, as in a mask of rows and columns;
        a first size that is also that of the batch stays.
        """
        if self.dims:
            return {name: tuple(dims) for name, dims in self.dims.items()}
        second = Counter(leaf.shape[1] for _, leaf in tensors if leaf.dim() > 1)
        length = second.most_common(1)[0][0] if second else 0
        first = 1 if length == _batch(tensors) else 0
        at = {
            name: [dim for dim in range(first, leaf.dim()) if leaf.shape[dim] == length]
            for name, leaf in tensors
        }
        return {name: dims for name, dims in at.items() if dims} if length > 1 else {}


def _batch(tensors: Sequence[Named]) -> int:
    """Return the size of the batch: the first size of most tensors, of matrices if there are."""
    rows = [leaf for _, leaf in tensors if leaf.dim() > 1]
    rows = rows or [leaf for _, leaf in tensors if leaf.dim()]
    common = Counter(leaf.shape[0] for leaf in rows).most_common(1)
    return common[0][0] if common else 0


Resize = Callable[[torch.Tensor, int, int], torch.Tensor]
"""Makes a tensor of another size in a dimension, the last number a size that stays whole."""


def _rebatch(leaf: torch.Tensor, batch: int, resize: Resize) -> torch.Tensor:
    """Return a tensor of another batch, also where heads or samples are folded into it."""
    divides = leaf.dim() > 0 and batch > 0 and leaf.shape[0] % batch == 0
    if not divides or (leaf.dim() == 1 and leaf.shape[0] != batch):
        return leaf
    return resize(leaf, 0, leaf.shape[0] // batch)


def _resize(leaf: torch.Tensor, dims: Sequence[int], resize: Resize) -> torch.Tensor:
    for dim in dims:
        leaf = resize(leaf, dim, 1)
    return leaf


def _first(leaf: torch.Tensor, dim: int, size: int) -> torch.Tensor:
    return leaf.narrow(dim, 0, size)


def _twice(leaf: torch.Tensor, dim: int, size: int) -> torch.Tensor:
    return torch.cat([leaf, leaf], dim)


def _shorter(leaf: torch.Tensor, dim: int, size: int) -> torch.Tensor:
    return leaf.narrow(dim, 0, max(leaf.shape[dim] - size, 1))


def _copy_like(drawn: torch.Tensor, leaf: torch.Tensor, kind: str) -> torch.Tensor:
    """Return a copy, with the strides of the original where it has its size: guards check them."""
    like = leaf if drawn.shape == leaf.shape else drawn
    same = torch.empty_like(like.detach(), dtype=drawn.dtype).copy_(drawn.detach())
    return same.requires_grad_(leaf.requires_grad)


def _vary(leaf: torch.Tensor, kind: str) -> torch.Tensor:
    """Return other values. Integers stay in range: they may be indices."""
    value = leaf.detach()
    if leaf.is_floating_point():
        return _floats(value, kind)
    if leaf.is_complex() or not leaf.dim():
        return value
    if kind == "padded":
        return _pad(value)
    if leaf.dtype == torch.bool:
        return value if kind == "random" else ~value
    return value.flip(-1) if kind == "zero" else value.roll(1, -1)


def _floats(value: torch.Tensor, kind: str) -> torch.Tensor:
    """Return negated values, drawn ones, zeros, large ones, or some that are NaN."""
    if kind == "negated":
        return -value
    if kind == "large":
        return value * 1000
    if kind == "zero":
        return torch.zeros_like(value)
    drawn = torch.randn(value.shape, dtype=torch.float32).to(value.device, value.dtype)
    if kind == "NaN" and drawn.numel():
        drawn.view(-1)[:: max(2, drawn.numel() // 3)] = float("nan")
    return drawn


def _pad(value: torch.Tensor) -> torch.Tensor:
    """Return a mask of zeros and ones padded to another length in each row; else halved values."""
    value = value.clone()
    size = value.shape[-1]
    if value.dim() > 1 and value.numel() and bool(((value == 0) | (value == 1)).all()):
        for number, row in enumerate(rows := value.reshape(-1, size)):
            row[size // 2 + number % max(1, size - size // 2) :] = 0
        return rows.reshape(value.shape)
    end = value[..., size // 2 :]
    end.copy_(torch.zeros_like(end) if value.dtype == torch.bool else end // 2)
    return value
