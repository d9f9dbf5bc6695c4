"""Tells which names of a loop hold Python numbers, whatever it does."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from pytest_graphbreak.repair.rewrite.scope import values, walk

_KEEP: Final = frozenset({"abs", "float", "int", "max", "min"})
"""Functions that give a number for numbers."""

_COMPUTES: Final = (ast.BinOp, ast.Attribute, ast.Subscript, ast.AugAssign)
_ORDERS: Final = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_TAKES: Final = frozenset(
    {"torch.abs", "torch.allclose", "torch.dot", "torch.equal", "torch.isclose", "torch.matmul"}
    | {"torch.maximum", "torch.minimum", "torch.mul", "torch.norm", "torch.sub", "torch.where"}
)
"""Functions that take tensors only."""


def kind(value: ast.expr | None) -> str | None:
    """Return ``int`` or ``float`` if an expression has the form of a Python number, else None."""
    if isinstance(value, ast.UnaryOp):
        value = value.operand
    if isinstance(value, ast.Constant):
        name = type(value.value).__name__
        return {"bool": "int"}.get(name, name) if name in ("bool", "int", "float") else None
    text = ast.unparse(value) if value is not None else ""
    if text in ("math.inf", "torch.inf", "np.inf", "math.pi") or text.startswith("float("):
        return "float"
    return "int" if text.startswith(("len(", "int(")) else None


def is_none(value: ast.expr | None) -> bool:
    """Return whether an expression is ``None``."""
    return isinstance(value, ast.Constant) and value.value is None


def assumed(
    body: Sequence[ast.stmt],
    begins: Mapping[str, Collection[str]],
    unsure: Mapping[str, ast.expr | None],
) -> list[str]:
    """Return the lines that raise TypeError where a name is not what a loop takes it for.

    ``begins`` are the names that it takes for numbers, or for None, by what they begin as, each
    with the types that it may have, if these are several. What it computes such numbers from has to
    be a number, too. ``unsure`` are names with a value that they may have: arguments, defaults.
    """
    steps = [value for name, value in _steps(body) if name in begins and value is not None]
    used = {one.id for value in steps for one in ast.walk(value) if isinstance(one, ast.Name)}
    lines: list[str] = []
    for name, value in unsure.items():
        if name in begins or (name in used and kind(value)):
            types = sorted(begins.get(name, ())) or [_type(value)]
            lines += held_to(name, types)
    return lines


def held_to(name: str, types: Sequence[str]) -> list[str]:
    """Return the lines that raise TypeError if a value has none of the types; "" is None's."""
    wanted = " or ".join(types) or "None"
    text = f"{name} has to be {wanted}: the loop was rewritten for that"
    return [f"if {_is_no(name, types)}:", f"    raise TypeError({text!r})"]


def type_of(value: ast.expr, numbers: Mapping[str, str]) -> str | None:
    """Return ``int``, ``float`` or ``bool`` for an expression of numbers, or None for others.

    ``numbers`` are the names that hold some, with their types. What may raise counts as another.
    """
    if isinstance(value, ast.Constant):
        return _type(value) or None
    if isinstance(value, ast.Name):
        return numbers.get(value.id)
    inner = [value.operand] if isinstance(value, ast.UnaryOp) else []
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add | ast.Sub | ast.Mult):
        inner = [value.left, value.right]
    types = {type_of(one, numbers) for one in inner}
    if not types or None in types or isinstance(getattr(value, "op", None), ast.Not | ast.Invert):
        return None
    return "float" if "float" in types else "int"


def asked(name: str, nodes: Sequence[ast.AST]) -> ast.AST | None:
    """Return the first use of a name that may be None, without an error, or None.

    To compute with None is an error. A test whether it is None has another answer for a tensor.
    """
    for node in walk(nodes):
        for one in ast.iter_child_nodes(node):
            if isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Load):
                compared = isinstance(node, ast.Compare) and all(
                    isinstance(sign, _ORDERS) for sign in node.ops
                )
                called = isinstance(node, ast.Call) and ast.unparse(node.func) in _TAKES
                negated = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
                computes = isinstance(
                    node, ast.BinOp | ast.Attribute | ast.Subscript | ast.AugAssign
                )
                if not (computes or compared or called or negated):
                    return node
    return None


def _type(value: ast.expr | None) -> str:
    """Return the name of the type of a number, or an empty text for None."""
    flag = isinstance(value, ast.Constant) and isinstance(value.value, bool)
    return "bool" if flag else kind(value) or ""


def _is_no(name: str, types: Sequence[str]) -> str:
    """Return the test that a value has none of the types."""
    if len(types) > 1:
        return f"type({name}) not in ({', '.join(types)})"
    return f"type({name}) is not {types[0]}" if types[0] else f"{name} is not None"


def that_stay(
    body: Sequence[ast.stmt],
    kinds: Mapping[str, str],
    tensors: Mapping[str, str],
    before: Mapping[str, ast.expr | None],
) -> tuple[dict[str, str], set[str]]:
    """Return those of the names in ``kinds`` that stay numbers, and the numbers local to a loop.

    ``tensors`` are names that it makes tensors of, with the kind of their numbers, and ``before``
    has the values that it begins with.
    """
    steps = [(name, value) for name, value in _steps(body) if name not in tensors]
    set_there = {name for name, _ in steps}
    known = {name for name, value in before.items() if kind(value) and name not in set_there}
    found = {*kinds, *tensors, *(set_there - before.keys())}
    while lost := {
        name for name, value in steps if name in found and not _is_number(value, found | known)
    }:
        found -= lost
    numbers = {name: one for name, one in (*kinds.items(), *tensors.items()) if name in found}
    return numbers, found - numbers.keys()


def _steps(body: Sequence[ast.stmt]) -> list[tuple[str, ast.expr | None]]:
    """Return the names that statements set or change, each with what it gets, or changes by."""
    changes = [
        (node.target.id, node.value)
        for node in walk(body)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)
    ]
    return [*values(body), *changes]


def _is_number(value: ast.expr | None, known: Collection[str]) -> bool:
    allowed = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.expr_context)
    if value is None:
        return False
    for node in ast.walk(value):
        called = (
            isinstance(node, ast.Call) and ast.unparse(node.func) in _KEEP and not node.keywords
        )
        named = isinstance(node, ast.Name) and node.id in {*known, *_KEEP}
        if not (isinstance(node, allowed) or called or named):
            return False
    return True
