"""Rewrites numbers that a loop reads from tensors in each round as tensors.

``error = float(t)`` would need the value of ``t`` while the graph is traced. Python computes with a
double, so the name gets a double tensor without dimensions, and no gradient. A flag, ``done = error
< 1e-3``, gets a bool tensor.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence

from pytest_graphbreak.repair.rewrite.conditions import (
    as_doubles,
    condition,
    draws,
    holds_read,
    in_parentheses,
    read_from,
    reduced,
)
from pytest_graphbreak.repair.rewrite.scope import UnfitError, bound, changed, values


def as_tensors(
    body: Sequence[ast.stmt], without: Collection[str]
) -> tuple[list[ast.stmt], frozenset[str]]:
    """Return the statements of a loop, with tensors for numbers, and the names of these.

    A name counts if each value that the loop gives it is read from a tensor, and if it is not among
    ``without``. A tensor that ``item`` reads and that holds no floats is refused during tracing.
    """
    found = [_read(one) for one in body]
    others = [one for one, name in zip(body, found, strict=True) if name is None]
    names = frozenset({name for name in found if name}.difference(bound(others), without))
    return [line for one in body for line in _changed(one, names)], names


def _read(node: ast.stmt) -> str | None:
    """Return the name that a statement gives a number that is read from tensors, or None."""
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return None
    target = node.targets[0]
    number = isinstance(node.value, ast.Call | ast.BinOp | ast.UnaryOp) and _is_number(node.value)
    return target.id if isinstance(target, ast.Name) and number else None


def _is_number(value: ast.expr) -> bool:
    if read_from(value) is not None:
        return True
    try:
        return holds_read(value) and not draws([value]) and as_doubles(value) is not value
    except UnfitError:
        return False


def _changed(node: ast.stmt, names: Collection[str]) -> list[ast.stmt]:
    """Return the statements for one that reads a number, or the statement itself."""
    name = _read(node)
    if name is None or name not in names:
        return [node]
    assert isinstance(node, ast.Assign)
    tensor = read_from(node.value)
    if tensor is None:
        return _computed(name, node.value)
    text, shape = in_parentheses(tensor), "" if reduced(tensor) else ".reshape(())"
    if ast.unparse(node.value).startswith("float("):
        return [*ast.parse(f"{name} = {text}.detach().double(){shape}").body]
    return [
        *ast.parse(
            f"{name} = {text}.detach(){shape}\n{_check(name)}\n{name} = {name}.double()"
        ).body
    ]


def _computed(name: str, value: ast.expr) -> list[ast.stmt]:
    """Return the statements for a number that is computed from others: ``abs(x.item()) * 2``."""
    lines: list[str] = []
    reads = _Reads(name, lines)
    changed = as_doubles(reads.visit(ast.parse(ast.unparse(value), mode="eval").body))
    return [*ast.parse("\n".join([*lines, f"{name} = {ast.unparse(changed)}"])).body]


class _Reads(ast.NodeTransformer):
    """Gives each tensor that a number is read from a name, and checks that it holds floats."""

    def __init__(self, name: str, lines: list[str]) -> None:
        self._name = name
        self._lines = lines

    def visit_Call(self, node: ast.Call) -> ast.expr:
        tensor = read_from(node)
        if tensor is None:
            self.generic_visit(node)
            return node
        name = f"_{self._name}_{len(self._lines) // 2 + 1}"
        self._lines += [f"{name} = {in_parentheses(tensor)}.detach()", _check(name)]
        return ast.Call(ast.Attribute(ast.Name(name, ast.Load()), "item", ast.Load()), [], [])


def _check(name: str) -> str:
    return f"torch._check({name}.is_floating_point())"


def flags(body: Sequence[ast.stmt], before: Mapping[str, ast.expr | None]) -> frozenset[str]:
    """Return the names that begin as ``True`` or ``False``, and are set to one or to a test."""
    others = {name for name, value in values(body) if not (_is_flag(value) or _is_test(value))}
    begin = {name for name, value in before.items() if _is_flag(value)}
    return frozenset(begin.intersection(bound(body)).difference(others, changed(body)))


def unclear(body: Sequence[ast.stmt], names: Collection[str]) -> str:
    """Return the first test of these flags that may be a tensor as well, or an empty text."""
    found = (value for name, value in values(body) if name in names and not _is_flag(value))
    sure = ("bool", "torch.allclose", "torch.equal")
    return next(
        (
            ast.unparse(value)[:60]
            for value in found
            if value is not None
            and not holds_read(value)
            and not (isinstance(value, ast.Call) and ast.unparse(value.func) in sure)
        ),
        "",
    )


def _is_flag(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, bool)


def _is_test(value: ast.expr | None) -> bool:
    if isinstance(value, ast.UnaryOp):
        return isinstance(value.op, ast.Not)
    return isinstance(value, ast.Compare | ast.BoolOp) or (
        isinstance(value, ast.Call)
        and ast.unparse(value.func) in ("bool", "torch.allclose", "torch.equal")
    )


class AsFlags(ast.NodeTransformer):
    """Replaces the values of flags by bool tensors."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        if len(node.targets) != 1 or ast.unparse(node.targets[0]) not in self._names:
            return node
        fixed = f"torch.full((), {ast.unparse(node.value)})"
        text = fixed if _is_flag(node.value) else condition(node.value)
        return ast.copy_location(ast.Assign(node.targets, ast.parse(text, mode="eval").body), node)
