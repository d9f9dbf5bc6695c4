"""Copies of the inputs and outputs of a call, without a graph that the program does not have."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.utils._pytree import tree_map


def is_lazy(tensor: torch.Tensor) -> bool:
    """Return whether looking at the tensor would make graphs of its own."""
    return tensor.device.type not in ("cpu", "cuda")


def _is_computed(tensor: torch.Tensor) -> bool:
    """Return whether a lazy tensor has its value, so that a copy on the host makes no graph.

    A tensor that is held is a result of the step that follows: a graph that the program does not
    have.
    """
    library = getattr(sys.modules.get("torch_xla"), "_XLAC", None)
    pending = getattr(library, "_check_tensor_need_materialization", None)
    return pending is not None and not any(pending([tensor]))


def copy_of(value: Any) -> Any:
    """Return a copy of the arguments for another call, which may change them in place."""
    return tree_map(_copy, value)


def _copy(leaf: Any) -> Any:
    if not isinstance(leaf, torch.Tensor):
        return leaf
    return leaf.detach().clone().requires_grad_(leaf.requires_grad)


def store(value: Any) -> Any:
    """Return inputs for later calls. On a lazy device they are not copied: a copy is a graph."""
    return tree_map(
        lambda leaf: leaf if not isinstance(leaf, torch.Tensor) or is_lazy(leaf) else _same(leaf),
        value,
    )


def _same(leaf: torch.Tensor) -> torch.Tensor:
    """Return a copy, or the leaf itself if it has gradients, since its gradient comes later."""
    return leaf if leaf.requires_grad and leaf.is_leaf else _copy(leaf)


def snapshot(tensor: torch.Tensor) -> torch.Tensor:
    """Return a lazy tensor as it is now, or itself if it is not computed yet."""
    return tensor.detach().cpu() if _is_computed(tensor) else tensor
