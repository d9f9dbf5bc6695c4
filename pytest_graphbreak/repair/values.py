"""Values as they are compared: flat lists of their leaves, each with its path.

``{"a": x, "b": 2}`` is, as the result of a call, ``output() = <dict>``, the name of its type,
``output['a'] = x`` and ``output['b'] = 2``.

A leaf is a copy, so that later changes of the program do not matter: ``flatten`` makes it while the
program runs, of a tensor a dense one on the CPU. A tensor on a device of torch_xla is lazy, though:
it may be pending, without a value until the next step, and to copy it would be a graph that the
program does not have. Such a leaf is the tensor itself, until ``settle`` makes it dense, when the
graphs have been counted.
"""

from __future__ import annotations

import sys
import types
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from msgspec import Struct
from msgspec.structs import replace
from torch.utils._pytree import tree_flatten

Flat = list[tuple[str, Any]]
"""Each leaf of a value by its path: ``TensorLeaf``, numbers, texts, names of types."""

_PLAIN: Final = (bool, int, float, complex, str, bytes)
"""Types whose values are leaves as they are."""
_DEPTH: Final = 8
"""The number of containers and objects around a leaf; what is deeper is its type's name."""
_OPAQUE: Final = (torch.nn.Module, type, types.FunctionType, types.MethodType, types.ModuleType)
"""Objects that are no part of a value; what modules hold is compared as state."""
_FEW: Final = 64
"""More numbers of one kind in a list are one leaf."""
_SMALL: Final = 4096
"""The number of elements up to which a value is kept even if a drawn call does not change it."""
_SHOWN: Final = 60
"""The number of characters of a leaf in a message."""


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


class Lines(tuple[str, ...]):
    """The lines that one run, or one call, wrote to one stream."""

    __slots__ = ()


def flatten(
    value: Any, path: str = "", *, opened: bool = True, within: tuple[int, ...] = ()
) -> Flat:
    """Return the leaves of a value, whose paths begin with ``path``.

    With ``opened`` the attributes of objects are leaves as well. ``within`` are the ids of the
    containers and objects around the value, which may hold each other.
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
    if isinstance(value, list) and (dtype := _long_dtype(value)) is not None:
        return [(f"{path}()", kind_name), (path, TensorLeaf(torch.tensor(value, dtype=dtype)))]
    leaves: Flat = [(f"{path}()", kind_name)]
    for name, part in parts:
        leaves += flatten(part, name, opened=opened, within=(*within, id(value)))
    return leaves


def _long_dtype(values: list[Any]) -> torch.dtype | None:
    """Return the type of the numbers of a long list of one kind, None for any other list."""
    kinds = {*map(type, values)} if len(values) > _FEW else set()
    if kinds == {int} and all(abs(number) < 2**63 for number in values):
        return torch.int64
    return torch.float64 if kinds == {float} else None


def _parts(value: Any, path: str, opened: bool) -> list[tuple[str, Any]] | None:
    """Return the parts of a container or an object by their paths, or None for a leaf.

    ``batch['ids']``, ``rows[0]``, ``names{0}`` of a set, ``batch<0>`` of what torch's pytree takes
    apart, ``net.weight`` of any other object.
    """
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
    """Return the leaf of a tensor, or a ``TypeName`` for one whose values cannot be had."""
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


def named(parts: Mapping[str, Any]) -> Flat:
    """Return the leaves of several values, whose paths begin with their names."""
    return [leaf for name, part in parts.items() for leaf in flatten(part, name)]


def structure(flat: Flat) -> list[tuple[str, str]]:
    """Return each path, and whether a tensor or a number is there: ``("output[1]", "number")``.

    A patch that changes this changes what is given to a call, or what it gives (``border``).
    """
    return [(path, _form(leaf)) for path, leaf in flat]


def _form(leaf: Any) -> str:
    if isinstance(leaf, TensorLeaf):
        return "tensor"
    return "number" if isinstance(leaf, bool | int | float) else ""


def text(flat: Flat) -> str:
    """Return a value in a few words."""
    leaves = [leaf for _, leaf in flat]
    values = [leaf for leaf in leaves if not isinstance(leaf, TypeName)]
    return ", ".join(map(leaf_text, values[:4] or leaves[:1])) or "empty"


def leaf_text(leaf: Any) -> str:
    """Return a leaf in a few words."""
    if isinstance(leaf, TensorLeaf):
        small = leaf.value.numel() <= 8
        return str(leaf.value.tolist()) if small else f"a tensor of {list(leaf.value.shape)}"
    text = leaf if isinstance(leaf, TypeName) else repr(leaf)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def is_small(flat: Flat) -> bool:
    """Return whether the tensors of a value have few elements (``_SMALL``)."""
    sizes = [leaf.value.numel() for _, leaf in flat if isinstance(leaf, TensorLeaf)]
    return bool(sum(sizes) <= _SMALL)


def is_lazy(tensor: torch.Tensor) -> bool:
    """Return whether looking at the tensor would make graphs of its own."""
    return tensor.device.type not in ("cpu", "cuda")


def _is_computed(tensor: torch.Tensor) -> bool:
    """Return whether a lazy tensor has its value, so that a copy on the host makes no graph."""
    library = getattr(sys.modules.get("torch_xla"), "_XLAC", None)
    pending = getattr(library, "_check_tensor_need_materialization", None)
    return pending is not None and not any(pending([tensor]))


def snapshot(tensor: torch.Tensor) -> torch.Tensor:
    """Return a lazy tensor as it is now, or itself if it is pending.

    It is not held on its device: what is held is one more result of the next step, and that makes a
    graph that the program does not have.
    """
    return tensor.detach().cpu() if _is_computed(tensor) else tensor
