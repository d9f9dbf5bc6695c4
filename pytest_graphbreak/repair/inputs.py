"""Draws inputs that a program did not use itself, as its users may vary them.

Nothing is known of what the program takes: an input for which torch raises in the uncompiled
program is none of its inputs. One that a line of the program refuses itself has to be refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import torch
from msgspec import Struct
from torch.utils._pytree import tree_leaves, tree_map

from pytest_graphbreak.repair.calls import Dims, copy_of, tensors_of

# The kinds of inputs, as reports name them.
OWN: Final = "the first inputs again"
FLOATS: Final = ("negated", "random", "zero", "small", "large", "largest", "NaN", "inf", "-inf")
"""Floats of the same sizes, for the branches that the program did not take."""
INTEGERS: Final = ("others", "0", "all 0", "-1", "-100")
"""Integers and masks of the same sizes, among them those that losses ignore."""
_NUMBERS: Final = "other numbers"
_FLAGS: Final = "other flags"
_EMPTY: Final = "an empty batch"
_ONE: Final = "a batch of one"
_TWICE: Final = "a batch twice as large"
_SHORTER: Final = "a shorter length"
_LONGER: Final = "a longer length"
_REQUIRING: Final = "inputs that require gradients"
_DOUBLE: Final = "inputs of float64"

Named = tuple[str, torch.Tensor]
"""A tensor with its name among the arguments (``calls.tensors_of``)."""


class DrawnWay(Struct, frozen=True):
    """A way to call once more: with which inputs, with gradients or not, in train or eval mode.

    ``name`` is what a report says, ``values`` the kind of the inputs, one of the texts above. They
    differ for "train and eval mode exchanged", which has the inputs of the program (``OWN``).
    ``flipped`` is whether the modules are in the other of their two modes, ``requiring`` whether
    all floats require gradients. ``grad`` is None where gradients are computed as in the program.
    """

    name: str
    values: str
    grad: bool | None = None
    flipped: bool = False
    requiring: bool = False


class DrawnInputs(Struct, frozen=True):
    """The arguments of a call, and the dimensions of them that vary (``calls.varying``)."""

    model: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    dims: Dims

    def ways(self, *, values_only: bool, grad: bool, modules: bool) -> Iterator[DrawnWay]:
        """Yield the ways to call; without ``values_only`` also what compiles again.

        ``grad`` is whether the program computes gradients, ``modules`` whether there are modules.
        """
        yield from (DrawnWay(kind, kind) for kind in self._values())
        if values_only:
            return
        tensors = self._tensors()
        yield from (DrawnWay(kind, kind) for kind in self._sizes(tensors))
        if any(leaf.dtype == torch.float32 for _, leaf in tensors):
            yield DrawnWay(_DOUBLE, _DOUBLE)
        yield DrawnWay("no gradients" if grad else "gradients", OWN, grad=not grad)
        if modules:
            yield DrawnWay("train and eval mode exchanged", OWN, flipped=True)
        if any(leaf.is_floating_point() for _, leaf in tensors):
            yield DrawnWay(_REQUIRING, OWN, grad=True, requiring=True)
            yield DrawnWay(f"{_REQUIRING}, negated", "negated", grad=True, requiring=True)

    def _values(self) -> Iterator[str]:
        """Yield the kinds of other values in inputs of the same sizes."""
        yield OWN
        dtypes = [leaf.dtype for _, leaf in self._tensors()]
        if any(dtype.is_floating_point for dtype in dtypes):
            yield from FLOATS
        if any(not dtype.is_floating_point for dtype in dtypes):
            yield from INTEGERS
        kinds = {type(leaf) for leaf in tree_leaves((self.args, self.kwargs))}
        if {int, float} & kinds:
            yield _NUMBERS
        if bool in kinds:
            yield _FLAGS

    def _sizes(self, tensors: Sequence[Named]) -> Iterator[str]:
        if _batch(tensors):
            yield from (_EMPTY, _ONE, _TWICE)
        if self._lengths(tensors):
            yield from (_SHORTER, _LONGER)

    def draw(self, way: DrawnWay) -> Any:
        """Return other arguments, which share nothing with the first."""
        arguments = (self.args, self.kwargs)
        drawn = copy_of(arguments) if way.values == OWN else self._others(way.values)
        for leaf in tree_leaves(drawn) if way.requiring else ():
            if isinstance(leaf, torch.Tensor) and leaf.is_floating_point():
                leaf.requires_grad_()
        return drawn

    def _others(self, kind: str) -> Any:
        change = self._changes(kind)
        others = {id(leaf): _copy_like(change(name, leaf), leaf) for name, leaf in self._tensors()}

        def replacement(leaf: Any) -> Any:
            if kind == _NUMBERS and type(leaf) in (int, float):
                return leaf + 1 if type(leaf) is int else leaf * 2 + 0.5
            if kind == _FLAGS and type(leaf) is bool:
                return not leaf
            return others.get(id(leaf), leaf)

        return tree_map(replacement, (self.args, self.kwargs))

    def _tensors(self) -> list[Named]:
        return list(tensors_of(self.model, self.args, self.kwargs))

    def _changes(self, kind: str) -> Callable[[str, torch.Tensor], torch.Tensor]:
        """Return what makes a tensor of a kind out of one with a name."""
        tensors = self._tensors()
        if kind in _RESIZES:
            of_length = kind in (_SHORTER, _LONGER)
            dims = self._lengths(tensors) if of_length else _batches(tensors)
            return lambda name, leaf: _resize(leaf, dims.get(name, ()), kind)
        if kind == _DOUBLE:
            return lambda _, leaf: leaf.double() if leaf.dtype == torch.float32 else leaf
        return lambda _, leaf: _vary(leaf, kind)

    def _lengths(self, tensors: Sequence[Named]) -> dict[str, Sequence[int]]:
        """Return the dimensions that vary in the program, else those of the most common length.

        A length is a second size, and changes wherever it stands, as in a mask of rows and columns;
        a first size that is also that of the batch stays. For ``ids`` of [2, 8] and ``mask`` of
        [8, 8] the length is 8: ``{"ids": [1], "mask": [0, 1]}``.
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


def _batches(tensors: Sequence[Named]) -> dict[str, Sequence[int]]:
    batch = _batch(tensors)
    return {name: (0,) for name, leaf in tensors if leaf.dim() and leaf.shape[0] == batch}


def _twice(leaf: torch.Tensor, dim: int) -> torch.Tensor:
    return torch.cat([leaf, leaf], dim)


# What makes a tensor of another size in one dimension, by the kind of inputs.
_RESIZES: Final[dict[str, Callable[[torch.Tensor, int], torch.Tensor]]] = {
    _EMPTY: lambda leaf, dim: leaf.narrow(dim, 0, 0),
    _ONE: lambda leaf, dim: leaf.narrow(dim, 0, 1),
    _TWICE: _twice,
    _SHORTER: lambda leaf, dim: leaf.narrow(dim, 0, max(leaf.shape[dim] - 1, 1)),
    _LONGER: _twice,
}


def _resize(leaf: torch.Tensor, dims: Sequence[int], kind: str) -> torch.Tensor:
    for dim in dims:
        leaf = _RESIZES[kind](leaf, dim)
    return leaf


def _copy_like(drawn: torch.Tensor, leaf: torch.Tensor) -> torch.Tensor:
    """Return a copy, with the strides of the original where it has its size: guards check them."""
    like = leaf if drawn.shape == leaf.shape else drawn
    same = torch.empty_like(like.detach(), dtype=drawn.dtype).copy_(drawn.detach())
    return same.requires_grad_(leaf.requires_grad)


def _vary(leaf: torch.Tensor, kind: str) -> torch.Tensor:
    """Return other values of a kind; a tensor that it does not concern stays as it is."""
    value = leaf.detach()
    if leaf.is_floating_point():
        return _floats(value, kind) if kind in FLOATS else value
    if kind not in INTEGERS or leaf.is_complex():
        return value
    if kind == "others":  # in range: they may be indices
        is_mask = leaf.dtype == torch.bool
        return ~value if is_mask else value.roll(1, -1) if leaf.dim() else value
    if kind == "all 0":  # a mask that leaves nothing
        return torch.zeros_like(value)
    return _some(value, int(kind)) if kind == "0" or leaf.dtype.is_signed else value


def _floats(value: torch.Tensor, kind: str) -> torch.Tensor:
    """Return negated values, drawn ones, zeros, large and small ones, or some that are special."""
    if kind == "negated":
        return -value
    if kind in ("small", "large"):
        return value * (1000 if kind == "large" else 0.001)
    if kind == "zero":
        return torch.zeros_like(value)
    drawn = torch.randn(value.shape, dtype=torch.float32).to(value.device, value.dtype)
    if kind == "random":
        return drawn
    largest = torch.finfo(value.dtype).max
    return _some(drawn, largest if kind == "largest" else float(kind))


def _some(value: torch.Tensor, number: float) -> torch.Tensor:
    """Return a copy in which some elements are a number: 0, 3, 6 ... of four or more.

    Of three elements these are 0 and 2, of fewer it is all of them.
    """
    value = value.clone(memory_format=torch.contiguous_format)
    value.view(-1)[:: max(1, min(3, value.numel() - 1))] = number
    return value
