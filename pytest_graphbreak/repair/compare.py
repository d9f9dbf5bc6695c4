"""Compares what two runs gave: values as flat lists of their leaves, each with its path."""

from __future__ import annotations

import math
import types
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import torch
from msgspec import Struct
from msgspec.structs import replace
from torch.utils._pytree import tree_flatten

from pytest_graphbreak.repair import printed
from pytest_graphbreak.repair.comparison import ValueDifference
from pytest_graphbreak.repair.copies import is_lazy, snapshot

Flat = list[tuple[str, Any]]
"""Each leaf of a value by its path: ``TensorLeaf``, numbers, texts, names of types."""

Unlike = tuple[str, str, str]
"""Where in a value two differ, and both as texts."""

_PLAIN: Final = (bool, int, float, complex, str, bytes)
_DEPTH: Final = 8
_OPAQUE: Final = (torch.nn.Module, type, types.FunctionType, types.MethodType, types.ModuleType)
"""Objects that are no part of a value; what modules hold is compared as state."""
_FEW: Final = 64
"""More numbers of one kind in a list are one leaf."""
_SMALL: Final = 4096
_SHOWN: Final = 60
NOTHING: Final = "nothing"


class TypeName(str):
    """The name of a type: of a container, or in the place of an object that is not looked into."""

    __slots__ = ()


class TensorLeaf(Struct, frozen=True):
    """A tensor: a dense copy on the CPU, and what its user sees of it besides."""

    value: torch.Tensor
    requires_grad: bool = False
    contiguous: bool = True
    device: str = "cpu"

    def settled(self) -> TensorLeaf:
        """Return the leaf with its value on the CPU, which makes a graph on a lazy device."""
        return self if self.value.device.type == "cpu" else replace(self, value=dense(self.value))


def flatten(
    value: Any, path: str = "", *, opened: bool = True, within: tuple[int, ...] = ()
) -> Flat:
    """Return the leaves of a value. Tensors are copied, so later changes do not matter.

    With ``opened`` the attributes of objects are leaves as well.
    """
    if isinstance(value, torch.Tensor):
        return [(path, _tensor_leaf(value))]
    if value is None:
        return [(path, None)]
    for kind in _PLAIN:
        if isinstance(value, kind):
            convert: Callable[[Any], Any] = kind
            return [(path, convert(value))]  # a class of the program cannot be loaded elsewhere
    if type(value).__module__ == "numpy" and hasattr(value, "dtype"):
        number = getattr(value.dtype, "kind", "") in "biufc"
        return [(path, TensorLeaf(torch.as_tensor(value).clone()) if number else str(value))]
    kind_name = TypeName(f"<{type(value).__name__}>")
    ended = len(within) > _DEPTH or id(value) in within
    parts = None if ended else _parts(value, path, opened)
    if parts is None:
        return [(path, kind_name)]
    if isinstance(value, list) and len(value) > _FEW and {*map(type, value)} in ({int}, {float}):
        numbers = torch.tensor(value, dtype=torch.float64)
        return [(f"{path}()", kind_name), (path, TensorLeaf(numbers))]
    leaves: Flat = [(f"{path}()", kind_name)]
    for name, part in parts:
        leaves += flatten(part, name, opened=opened, within=(*within, id(value)))
    return leaves


def _parts(value: Any, path: str, opened: bool) -> list[tuple[str, Any]] | None:
    """Return the parts of a container or an object by their paths, or None for a leaf."""
    if isinstance(value, Mapping):
        return [(f"{path}[{key!r}]", part) for key, part in value.items()]
    if isinstance(value, list | tuple | deque):
        return [(f"{path}[{number}]", part) for number, part in enumerate(value)]
    if isinstance(value, set | frozenset):
        return [
            (f"{path}{{{number}}}", text) for number, text in enumerate(sorted(map(str, value)))
        ]
    if not opened or isinstance(value, _OPAQUE):
        return None
    leaves = tree_flatten(value)[0]
    if not (len(leaves) == 1 and leaves[0] is value):  # as of a tensordict
        return [(f"{path}<{number}>", leaf) for number, leaf in enumerate(leaves)]
    return [(f"{path}.{name}", part) for name, part in attributes(value).items()] or None


def attributes(value: Any) -> dict[str, Any]:
    """Return the attributes that an object has of its own, in its dict and its slots."""
    slots = [name for kind in type(value).__mro__ for name in vars(kind).get("__slots__", ())]
    filled = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return {**filled, **getattr(value, "__dict__", {})}


def _tensor_leaf(tensor: torch.Tensor) -> Any:
    if tensor.device.type == "meta" or tensor.is_nested:
        return TypeName(f"<{tensor.device.type} {tensor.dtype} {list(tensor.shape)}>")
    contiguous = tensor.layout == torch.strided and tensor.is_contiguous()
    value = snapshot(tensor) if is_lazy(tensor) else dense(tensor)
    return TensorLeaf(value, tensor.requires_grad, contiguous, tensor.device.type)


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """Return a dense copy on the CPU, without autograd history."""
    value = tensor.detach()
    if value.layout != torch.strided:
        value = value.to_dense()
    if value.is_quantized:
        value = value.dequantize()
    return value.cpu().clone().contiguous()


def settle(flat: Flat) -> Flat:
    """Return leaves whose tensors are on the CPU."""
    return [(path, leaf.settled() if isinstance(leaf, TensorLeaf) else leaf) for path, leaf in flat]


class Comparer(Struct, frozen=True):
    """Compares values. Each element has its own tolerance, that of ``torch.testing`` for its dtype.

    ``factor`` widens it, for code that inductor generates: it orders additions otherwise. With
    ``drawn`` a result may require gradients that the original did not compute in this branch.
    """

    factor: float = 1.0
    drawn: bool = False

    def difference(self, before: Flat, after: Flat, name: str = "") -> ValueDifference | None:
        """Return the first leaf that differs, or None if the values agree."""
        old_paths, new_paths = ([path for path, _ in flat] for flat in (before, after))
        if old_paths != new_paths:
            olds, news = [*old_paths, NOTHING], [*new_paths, NOTHING]
            pairs = enumerate(zip(olds, news, strict=False))
            at = next(place for place, (old, new) in pairs if old != new)
            before_it, after_it = dict(before), dict(after)
            values = _shown(before_it, olds[at]), _shown(after_it, news[at])
            return ValueDifference(f"{name}, its structure" if name else "its structure", *values)
        for (path, old), (_, new) in zip(before, after, strict=True):
            if (unlike := self._unlike(old, new)) is not None:
                place, old_text, new_text = unlike
                return ValueDifference(
                    f"{name}{path}{place}".strip() or "the result", old_text, new_text
                )
        return None

    def _unlike(self, old: Any, new: Any) -> Unlike | None:
        """Return where in a leaf the first difference is, and both values."""
        if isinstance(old, TensorLeaf) and isinstance(new, TensorLeaf):
            return self._tensors(old, new)
        if isinstance(old, printed.Lines) and isinstance(new, printed.Lines):
            return printed.difference(old, new)
        if {type(old), type(new)} == {TensorLeaf, type(None)}:
            # A gradient of a branch that was not taken is None, where both are computed zero.
            leaf = old if new is None else new
            return None if not leaf.value.any() else ("", _text(old), _text(new))
        if type(old) is not type(new):
            return "", f"{_text(old)} ({_kind(old)})", f"{_text(new)} ({_kind(new)})"
        if isinstance(old, float):
            near = math.isclose(old, new, rel_tol=1e-5 * self.factor, abs_tol=1e-6 * self.factor)
            return None if near or (old != old and new != new) else ("", repr(old), repr(new))
        return None if old == new else ("", _text(old), _text(new))

    def _tensors(self, old: TensorLeaf, new: TensorLeaf) -> Unlike | None:
        if old.value.shape != new.value.shape:
            return ", its shape", str(list(old.value.shape)), str(list(new.value.shape))
        if old.value.dtype != new.value.dtype:
            return ", its dtype", str(old.value.dtype), str(new.value.dtype)
        if old.device != new.device:
            return ", its device", old.device, new.device
        if old.requires_grad != new.requires_grad and (old.requires_grad or not self.drawn):
            return ", requires_grad", str(old.requires_grad), str(new.requires_grad)
        if old.contiguous and not new.contiguous:
            return ", contiguous", "True", "False"
        apart = ~self._close(old.value, new.value)
        if not apart.any():
            return None
        index = tuple(apart.nonzero()[0].tolist())
        at = f", element {list(index)}" if index else ""
        return at, repr(old.value[index].item()), repr(new.value[index].item())

    def _close(self, old: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        if not (old.is_floating_point() or old.is_complex()):
            return old == new
        wide = torch.complex128 if old.is_complex() else torch.float64
        relative, absolute = torch.testing._comparison.default_tolerances(old)
        return torch.isclose(
            new.to(wide),
            old.to(wide),
            rtol=relative * self.factor,
            atol=absolute * self.factor,
            equal_nan=True,
        )

    def has_numbers(self, flat: Flat) -> bool:
        return any(_as_tensor(leaf) is not None for _, leaf in flat)

    def same_numbers(self, before: Flat, after: Flat) -> bool:
        """Return whether all numbers of a value are in another in this order, in whatever form.

        An int may be a tensor, a list a tensor of its entries, or the first rows of a longer one.
        """
        candidates = iter([candidate for _, leaf in after for candidate in _candidates(leaf)])
        numbers = [leaf for _, leaf in before if _as_tensor(leaf) is not None]
        return all(any(self._same(old, new) for new in candidates) for old in numbers)

    def _same(self, old: Any, new: Any) -> bool:
        before, after = _as_tensor(old), _as_tensor(new)
        if before is None or after is None or before.numel() != after.numel():
            return False
        if isinstance(old, TensorLeaf) and isinstance(new, TensorLeaf):
            return self._unlike(old, replace(new, requires_grad=old.requires_grad)) is None
        return bool(self._close(before.to(after.dtype), after.reshape(before.shape)).all())


def _candidates(leaf: Any) -> Iterator[Any]:
    """Yield a leaf, and the rows of a tensor: it may hold a list."""
    yield leaf
    if isinstance(leaf, TensorLeaf) and leaf.value.dim():
        yield from (replace(leaf, value=row) for row in leaf.value.unbind(0))


def _as_tensor(leaf: Any) -> torch.Tensor | None:
    if isinstance(leaf, TensorLeaf):
        return leaf.value
    if isinstance(leaf, float):
        return torch.tensor(leaf, dtype=torch.float64)
    return torch.tensor(leaf) if isinstance(leaf, bool | int) and abs(leaf) < 2**63 else None


def text(flat: Flat) -> str:
    """Return a value in a few words."""
    leaves = [leaf for _, leaf in flat]
    values = [leaf for leaf in leaves if not isinstance(leaf, TypeName)]
    return ", ".join(map(_text, values[:4] or leaves[:1])) or "empty"


def is_equal(old: Flat, new: Flat) -> bool:
    """Return whether two values are the same, without a tolerance."""
    return Comparer(factor=0).difference(old, new) is None


def is_small(flat: Flat) -> bool:
    sizes = [leaf.value.numel() for _, leaf in flat if isinstance(leaf, TensorLeaf)]
    return bool(sum(sizes) <= _SMALL)


def _shown(values: Mapping[str, Any], path: str) -> str:
    return f"{path} = {_text(values[path])}" if path in values else NOTHING


def _kind(leaf: Any) -> str:
    return "Tensor" if isinstance(leaf, TensorLeaf) else type(leaf).__name__


def _text(leaf: Any) -> str:
    """Return a leaf in a few words."""
    if isinstance(leaf, TensorLeaf):
        small = leaf.value.numel() <= 8
        return str(leaf.value.tolist()) if small else f"a tensor of {list(leaf.value.shape)}"
    text = leaf if isinstance(leaf, TypeName) else repr(leaf)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def structure(flat: Flat) -> list[tuple[str, str]]:
    """Return what the border of a call is: each path, and whether a tensor or a number is there."""
    return [(path, _form(leaf)) for path, leaf in flat]


def _form(leaf: Any) -> str:
    if isinstance(leaf, TensorLeaf):
        return "tensor"
    return "number" if isinstance(leaf, bool | int | float) else ""


def named(parts: Mapping[str, Any]) -> Flat:
    return [leaf for name, part in parts.items() for leaf in flatten(part, name)]
