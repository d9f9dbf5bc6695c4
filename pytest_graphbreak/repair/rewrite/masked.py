"""Rewrites assignments to the places of a mask as ``torch.where``: their number is not a size."""

from __future__ import annotations

import ast
from typing import Final

from pytest_graphbreak.repair.pure import computes
from pytest_graphbreak.repair.rewrite.scope import Surroundings, UnfitError

_KEEPS: Final = ("to", "type_as", "contiguous", "clone", "float", "half", "bfloat16", "double")
"""Methods that treat each element by itself."""


def to_masked(node: ast.stmt, place: Surroundings) -> list[str]:
    """Rewrite ``x[mask] = v.expand_as(x[mask])`` as ``x.copy_(torch.where(mask, v, x))``.

    This also covers ``x[mask] = y[mask]``, and both forms below ``if mask.any():``. Shapes and
    dtypes are checked during tracing, since ``torch.where`` would broadcast and promote. Raises
    ``UnfitError``.
    """
    inner = _only(node)
    target = inner.targets[0] if len(inner.targets) == 1 else None
    if not isinstance(target, ast.Subscript) or not isinstance(target.slice, ast.Name):
        raise UnfitError("it sets no places of a mask that has a name")
    x, mask = ast.unparse(target.value), ast.unparse(target.slice)
    asks = (f"{mask}.any()", f"torch.any({mask})", f"bool({mask}.any())")
    if isinstance(node, ast.If) and ast.unparse(node.test) not in asks:
        raise UnfitError(f"the test is not {mask}.any()")
    value = _Value(x, mask)
    everywhere = value.visit(inner.value)
    if isinstance(node, ast.If) and not computes(everywhere):
        raise UnfitError("the value would always be worked out, and may do more than compute")
    if value.shape is None:
        if isinstance(node, ast.If):
            return place.source(inner)
        raise UnfitError("the value is not of the places of the mask")
    return [
        f"_mask, _value = {mask}, {ast.unparse(everywhere)}",
        f"torch._check((_mask.dtype, _mask.shape) == (torch.bool, {x}.shape[: _mask.dim()]))",
        f"torch._check(_value.dtype == {x}.dtype and {value.shape})",
        f"_mask = _mask.reshape(*_mask.shape, *[1] * ({x}.dim() - _mask.dim()))",
        f"{x}.copy_(torch.where(_mask, _value, {x}))",
    ]


def _only(node: ast.stmt) -> ast.Assign:
    """Return the assignment, which may be the only statement below an ``if``."""
    if isinstance(node, ast.If) and len(node.body) == 1 and not node.orelse:
        node = node.body[0]
    if not isinstance(node, ast.Assign):
        raise UnfitError("it does more than set the places of a mask")
    return node


class _Value(ast.NodeTransformer):
    """Rewrites the value for all places; ``shape`` is the check of its shape, None if unfit."""

    def __init__(self, x: str, mask: str) -> None:
        self._x, self._mask = x, mask
        self.shape: str | None = None

    def generic_visit(self, node: ast.AST) -> ast.AST:
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if not isinstance(node.func, ast.Attribute):
            return node
        given = ", ".join(map(ast.unparse, node.args))
        if node.func.attr == "expand_as" and given == f"{self._x}[{self._mask}]":
            self.shape = f"_value.dim() + _mask.dim() <= {self._x}.dim()"
            return node.func.value
        if node.func.attr in _KEEPS and f"[{self._mask}]" not in given:
            node.func.value = self.visit(node.func.value)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if ast.unparse(node.slice) != self._mask:
            return node
        self.shape = f"_value.shape == {self._x}.shape"
        return node.value
