"""Tells which names of a function may share memory: views of one tensor, other names of it.

``torch.while_loop`` takes no two inputs that share memory, and what it changes in place is a copy
until it has ended: a view from before the loop would not see it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Final

from pytest_graphbreak.repair.rewrite.rounds import COMPUTES
from pytest_graphbreak.repair.rewrite.scope import MAKES, Surroundings, UnfitError, walk

_VALUES: Final = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.Constant, ast.JoinedStr, ast.Lambda)
_PLAIN: Final = frozenset({"device", "dtype", "itemsize", "layout", "ndim", "shape", "training"})
_NUMBERS: Final = frozenset({"bool", "float", "int", "len", "range", "abs", "round", "sum"})
"""Functions of Python whose result shares nothing; ``max(x, y)`` is one of the two."""
_FRESH: Final = frozenset(
    {"add", "addmm", "arange", "argsort", "bmm", "cat", "cdist", "cross", "cumprod", "cumsum"}
    | {"diff", "dim", "div", "erf", "floor", "full", "linspace", "logsumexp", "matmul", "mm", "mul"}
    | {"multinomial", "neg", "numel", "one_hot", "outer", "pow", "randint", "randperm", "round"}
    | {"roll", "rsqrt", "scatter", "scatter_add", "size", "sort", "stack", "std", "sub", "tensor"}
    | {"tolist", "topk", "var"}
)
"""More methods, and functions of torch, whose result is a number or a tensor of its own."""
_VIEWS: Final = frozenset(
    {"detach", "diagonal", "expand", "expand_as", "flatten", "movedim", "narrow", "permute"}
    | {"ravel", "reshape", "select", "squeeze", "swapaxes", "t", "transpose", "unflatten", "unfold"}
    | {"unsqueeze", "view", "view_as"}
)
_SHOWN: Final = frozenset({"H", "T", "data", "imag", "mH", "mT", "real"})
"""Attributes that are views."""


def refuse_views(names: Sequence[str], nodes: Sequence[ast.AST], place: Surroundings) -> None:
    """Raise ``UnfitError`` if nodes use what may share memory with names that a loop changes.

    ``nodes`` are the body and the tests of the loop.
    """
    groups = _groups(place)
    used = {one for node in nodes for one in _symbols(node)}
    for name in names:
        others = groups.get(name, frozenset()) & used - {name}
        if others:
            raise UnfitError(f"{min(others)} may share memory with {name}, which is changed in it")


def views(nodes: Sequence[ast.AST], bound: Sequence[str], place: Surroundings) -> list[str]:
    """Return the views from before a loop that nodes read beside what they are views of.

    ``bound`` are the names that the loop sets itself.
    """
    groups = _groups(place)
    used = {one for node in nodes for one in _symbols(node)}
    found: list[str] = []
    for name, value in place.before.items():
        if name in used and name not in bound and _is_view(value):
            others = groups.get(name, frozenset()) & used - {name, *found}
            found += [name] if others else []
    return found


class Copied(ast.NodeTransformer):
    """Reads copies in place of names: ``_d_copy`` for ``d``."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self._names:
            return node
        return ast.copy_location(ast.Name(copy_of(node.id), node.ctx), node)


def copy_of(name: str) -> str:
    """Return the name of the copy of a view."""
    return f"_{name}_copy"


def _groups(place: Surroundings) -> dict[str, frozenset[str]]:
    """Return what may share memory with each name, by all that sets names before the statement."""
    groups: dict[str, frozenset[str]] = {}
    for node in place.earlier:
        for targets, value in _bindings(node):
            joined = frozenset({*targets, *shared(value)})
            joined = joined.union(*(groups.get(one, frozenset()) for one in joined))
            if targets and len(joined) > 1:
                groups |= dict.fromkeys(joined, joined)
    return groups


def _bindings(node: ast.AST) -> Iterator[tuple[set[str], ast.expr]]:
    """Yield the names that a node sets, with what they, or parts of them, are set to."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = [*zip(target.elts, node.value.elts, strict=False)]
            yield from ((set(_symbols(one)), value) for one, value in pairs)
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        yield set(_symbols(node.target)), node.value
    elif isinstance(node, ast.For):
        yield set(_symbols(node.target)), node.iter
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield set(_symbols(node.optional_vars)), node.context_expr


def _symbols(node: ast.AST) -> Iterator[str]:
    """Yield the names in a node, and attributes of objects as they are written: ``self.x``."""
    for one in walk([node]):
        if isinstance(one, ast.Name):
            yield one.id
        elif isinstance(one, ast.Attribute) and _is_held(one):
            yield ast.unparse(one)


def _is_held(node: ast.Attribute) -> bool:
    held = node.value
    while isinstance(held, ast.Attribute):
        held = held.value
    return isinstance(held, ast.Name) and held.id in ("self", "cls")


def shared(value: ast.expr) -> Iterator[str]:
    """Yield the names whose memory a value may share."""
    if isinstance(value, _VALUES):
        return
    if isinstance(value, ast.Name):
        if value.id not in ("self", "cls"):
            yield value.id
    elif isinstance(value, ast.Attribute):
        if value.attr not in _PLAIN:
            yield from ([ast.unparse(value)] if _is_held(value) else shared(value.value))
    elif isinstance(value, ast.Subscript | ast.Starred):
        yield from shared(value.value)
    elif isinstance(value, ast.Call):
        yield from _of_call(value)
    else:
        for one in ast.iter_child_nodes(value):
            if isinstance(one, ast.expr):
                yield from shared(one)


def _of_call(call: ast.Call) -> Iterator[str]:
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else ast.unparse(function)
    own = COMPUTES | MAKES | _FRESH if isinstance(function, ast.Attribute) else _NUMBERS
    if name in own and not any(one.arg in ("out", "inplace", None) for one in call.keywords):
        return
    if isinstance(function, ast.Attribute) and not _is_held(function):
        yield from shared(function.value)
    if name not in _VIEWS or ast.unparse(function).startswith("torch."):
        for one in (*call.args, *(each.value for each in call.keywords)):
            yield from shared(one)


def _is_view(value: ast.expr | None) -> bool:
    """Return whether an expression has the form of a view of a name."""
    while value is not None and not isinstance(value, ast.Name):
        if isinstance(value, ast.Subscript) or (
            isinstance(value, ast.Attribute) and value.attr in _SHOWN
        ):
            value = value.value
        elif isinstance(value, ast.Attribute) and _is_held(value):
            return True
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            value = value.func.value if value.func.attr in _VIEWS else None
        else:
            return False
    return value is not None
