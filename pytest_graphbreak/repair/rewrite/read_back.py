"""Rewrites numbers that a loop reads from a tensor in each round as tensors.

``error = float(t)`` would need the value of ``t`` while the graph is traced. Python computes with a
double, so the name gets a double tensor without dimensions, and no gradient.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence

from pytest_graphbreak.repair.rewrite.branches import read_from, reduced
from pytest_graphbreak.repair.rewrite.scope import bound


def as_tensors(
    body: Sequence[ast.stmt], without: Collection[str]
) -> tuple[list[ast.stmt], frozenset[str]]:
    """Return the statements of a loop, with tensors for numbers, and the names of these.

    A name counts if each value that the loop gives it is read from a tensor, and if it is not among
    ``without``. A tensor that ``item`` reads and that holds no floats is refused during tracing.
    """
    found = [_read(one) for one in body]
    others = [one for one, is_read in zip(body, found, strict=True) if is_read is None]
    names = frozenset({one[0] for one in found if one}.difference(bound(others), without))
    return [line for one in body for line in _changed(one, names)], names


def _read(node: ast.stmt) -> tuple[str, ast.expr] | None:
    """Return the name that a statement gives a number, and the tensor that it is read from."""
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return None
    target, tensor = node.targets[0], read_from(node.value)
    return (target.id, tensor) if isinstance(target, ast.Name) and tensor is not None else None


def _changed(node: ast.stmt, names: Collection[str]) -> list[ast.stmt]:
    """Return the statements for one that reads a number, or the statement itself."""
    found = _read(node)
    if found is None or found[0] not in names:
        return [node]
    name, tensor = found
    text = ast.unparse(tensor)
    simple = isinstance(tensor, ast.Name | ast.Call | ast.Attribute | ast.Subscript)
    text = text if simple else f"({text})"
    shape = "" if reduced(tensor) else ".reshape(())"
    assert isinstance(node, ast.Assign)
    if ast.unparse(node.value).startswith("float("):
        return [*ast.parse(f"{name} = {text}.detach().double(){shape}").body]
    check = f"torch._check({name}.is_floating_point())"
    return [*ast.parse(f"{name} = {text}.detach(){shape}\n{check}\n{name} = {name}.double()").body]
