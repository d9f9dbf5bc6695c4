"""Draws inputs that a program did not use itself, as its users may vary them.

``Drawing`` calls what the program compiles with each of them, before a patch and after it, and
``border`` compares the results. Nothing is known of what the program takes. So an input for which
an operator of torch raises in the uncompiled program is none of its inputs; one that a line of the
program refuses, by a ``raise`` of its own, has to be refused after the patch as well.

From top to bottom: the kinds of inputs; a way to call (``DrawnWay``); which ways there are for some
arguments, and the inputs of each (``DrawnInputs``); other sizes; other values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import torch
from msgspec import Struct
from torch.utils._pytree import tree_leaves, tree_map

from pytest_graphbreak.repair.calls import Dims, copy_of, tensors_of

# The kinds of inputs, in the words of reports.
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
    """A way to call once more: with which inputs, with gradients or not, in train or eval mode."""

    name: str
    """What a report says: ``zero``, ``train and eval mode exchanged``."""
    values: str
    """The kind of the inputs, one of the texts above: ``zero``, and for the other ``OWN``."""
    grad: bool | None = None
    """Whether gradients are computed; None for as in the program."""
    flipped: bool = False
    """Whether the modules are in the other of train and eval mode than in the program."""
    requiring: bool = False
    """Whether all floats of the inputs require gradients."""


class DrawnInputs(Struct, frozen=True):
    """The ways to call a compiled callable once more, drawn from the inputs of its first call."""

    model: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    dims: Dims
    """The dimensions that vary in the program, by argument; none if no call differs."""

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
        """Yield the kinds of inputs of other sizes."""
        if _batch(tensors):
            yield from (_EMPTY, _ONE, _TWICE)
        if self._lengths(tensors):
            yield from (_SHORTER, _LONGER)

    def draw(self, way: DrawnWay) -> Any:
        """Return the arguments of a way, which share no memory with those of the first call."""
        arguments = (self.args, self.kwargs)
        drawn = copy_of(arguments) if way.values == OWN else self._others(way.values)
        for leaf in tree_leaves(drawn) if way.requiring else ():
            if isinstance(leaf, torch.Tensor) and leaf.is_floating_point():
                leaf.requires_grad_()
        return drawn

    def _others(self, kind: str) -> Any:
        """Return arguments of a kind: each tensor, number and flag that it concerns is another."""
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
        """Return the function that makes a tensor of a kind, of an argument's name and tensor."""
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

        The length is the most common second size, and changes wherever it stands, as in a mask of
        rows and columns. For ``ids`` of [2, 8] and ``mask`` of [8, 8] it is 8: ``{"ids": [1],
        "mask": [0, 1]}``. A first dimension stays as it is if the batch has the same size.
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
    """Return the size of the batch, 0 without one: the most common first size of the tensors.

    If there are tensors of two dimensions and more, only these count.
    """
    rows = [leaf for _, leaf in tensors if leaf.dim() > 1]
    rows = rows or [leaf for _, leaf in tensors if leaf.dim()]
    common = Counter(leaf.shape[0] for leaf in rows).most_common(1)
    return common[0][0] if common else 0


def _batches(tensors: Sequence[Named]) -> dict[str, Sequence[int]]:
    """Return the dimension of the batch, the first, for each tensor that has it."""
    batch = _batch(tensors)
    return {name: (0,) for name, leaf in tensors if leaf.dim() and leaf.shape[0] == batch}


def _twice(leaf: torch.Tensor, dim: int) -> torch.Tensor:
    return torch.cat([leaf, leaf], dim)


# What makes a tensor of another size in one dimension, by the kind of inputs.
_RESIZES: Final[dict[str, Callable[[torch.Tensor, int], torch.Tensor]]] = {
    _EMPTY: lambda leaf, dim: leaf.narrow(dim, 0, 0),
    _ONE: lambda leaf, dim: leaf.narrow(dim, 0, 1),
    _TWICE: _twice,
    # A length of 0 or 1 stays: a program may begin with an empty cache.
    _SHORTER: lambda leaf, dim: leaf.narrow(dim, 0, leaf.shape[dim] - (leaf.shape[dim] > 1)),
    _LONGER: _twice,
}


def _resize(leaf: torch.Tensor, dims: Sequence[int], kind: str) -> torch.Tensor:
    for dim in dims:
        leaf = _RESIZES[kind](leaf, dim)
    return leaf


def _copy_like(drawn: torch.Tensor, leaf: torch.Tensor) -> torch.Tensor:
    """Return a copy of a drawn tensor that is like the program's own ``leaf``.

    It has its strides, which guards of Dynamo check, if it has its size; and requires gradients if
    that does.
    """
    like = leaf if drawn.shape == leaf.shape else drawn
    same = torch.empty_like(like.detach(), dtype=drawn.dtype).copy_(drawn.detach())
    return same.requires_grad_(leaf.requires_grad)


def _vary(leaf: torch.Tensor, kind: str) -> torch.Tensor:
    """Return a tensor with values of a kind; one that the kind does not concern as it is."""
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
