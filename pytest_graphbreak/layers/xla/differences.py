"""Why a graph was compiled again: what differs from the one before, in a user's words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pytest_graphbreak.layers.xla.fx import Piece
from pytest_graphbreak.layers.xla.naming import op_name


@dataclass(frozen=True, slots=True)
class Signature:
    """What is compared to say why a graph was compiled again."""

    inputs: tuple[tuple[str, str, tuple[int, ...]], ...]
    """Name, dtype and shape of each tensor among the arguments."""
    numbers: tuple[tuple[str, float], ...]
    """Op and value of each Python number in the graph."""


def signature(gm: Any, args: Sequence[Any], names: Sequence[str]) -> Signature:
    inputs = tuple(
        (name, str(arg.dtype).removeprefix("torch."), tuple(arg.shape))
        for name, arg in zip(names, args, strict=False)
        if hasattr(arg, "dtype")
    )
    numbers = tuple(
        (op_name(node), arg)
        for node in gm.graph.nodes
        if node.op == "call_function"
        for arg in node.args
        if _number(arg)
    )
    return Signature(inputs, numbers)


def change(before: Signature | None, now: Signature) -> str:
    """In a user's words, what differs from the graph that was compiled before."""
    if before is None:
        return "compiled again"
    if len(before.inputs) == len(now.inputs):
        for (name, dtype, shape), (_, was_dtype, was_shape) in zip(
            now.inputs, before.inputs, strict=True
        ):
            if shape != was_shape:
                return f"{name} went from shape {list(was_shape)} to {list(shape)}"
            if dtype != was_dtype:
                return f"{name} went from {was_dtype} to {dtype}"
    else:
        return f"it takes {len(now.inputs)} tensors, and took {len(before.inputs)}"
    if len(before.numbers) == len(now.numbers):
        for (op, value), (was_op, was) in zip(now.numbers, before.numbers, strict=True):
            if op == was_op and value != was:
                return f"the number in {op} went from {was} to {value}, which is a constant here"
    return "compiled again"


def new_sizes(piece: Piece, args: Sequence[Any], before: tuple[Any, ...] | None) -> str:
    """Why a graph with dynamic shapes was lowered again, from its Python numbers."""
    names = [name for name, _ in piece.inputs]
    after = [(name, arg) for name, arg in zip(names, args, strict=False) if _number(arg)]
    if before is None or len(before) != len(after):
        return "lowered again for new sizes"
    changes = [
        f"{name} went from {old} to {new}"
        for old, (name, new) in zip(before, after, strict=True)
        if old != new
    ]
    return "; ".join(changes) or "lowered again since the sharding of an input changed"


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
