"""Rewrites what a loop reads and sets by its round: ``x[i]``, ``out[:, i - 1]``.

In ``torch.while_loop`` the round is a tensor, and ``x[i]`` would need its value. An index of one
element needs none: ``x[i.reshape(1)][0]``. It counts from the end below zero, and raises the same
IndexError. But it is a copy, and no view of ``x``.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.rewrite.scope import UnfitError, changed, read, values, walk
from pytest_graphbreak.repair.source import alike, functions, lines

_VALUES: Final = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp)
COMPUTES: Final = frozenset(
    {"abs", "all", "any", "argmax", "argmin", "clone", "cos", "dot", "exp", "item", "log", "max"}
    | {"mean", "min", "norm", "prod", "relu", "sigmoid", "sin", "softmax", "sqrt", "square", "sum"}
    | {"tanh", "where"}
)
"""Functions whose result shares nothing with their arguments."""
_SUM: Final = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.expr_context)


def over_numbers(source: str, where: Frame) -> list[Frame]:
    """Return the loops over ``range(n)`` of a function whose ``n`` is set at a place.

    Raises ``SyntaxError``.
    """
    text = lines(source)
    hits = alike(text, where.code)
    found: list[Frame] = []
    for function in functions(ast.parse(source), where.function):
        sets = [one for one in walk(function.body) if isinstance(one, ast.Assign)]
        names = {name for one in sets if one.lineno in hits for name, _ in values([one])}
        for one in walk(function.body):
            if isinstance(one, ast.For) and _is_range(one.iter) and names & read([one.iter]):
                line = text[one.lineno - 1].strip()
                found.append(Frame(where.file, where.function, one.lineno, line))
    return found


def _is_range(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "range"


def by_index(
    body: Sequence[ast.stmt], numbers: Collection[str], changed_later: Iterable[str]
) -> list[ast.stmt]:
    """Return the statements with an index of one element where a number of the loop chooses.

    ``numbers`` are the integers that the loop carries as tensors. Raises ``UnfitError`` if what is
    chosen has another size in each round, or if it is changed in place as a view.
    """
    if not any(_mentions(one.slice, numbers) for one in _subscripts(body)):
        return list(body)
    written = {*changed(body), *changed_later}
    for node in walk(body):
        for target in _targets(node):
            if shares(target, numbers):
                raise UnfitError(f"`{ast.unparse(target)}` is a view that is changed in place")
    for name, value in values(body):
        if value is not None and shares(value, numbers):
            roots = {one.id for one in ast.walk(value) if isinstance(one, ast.Name)}
            if written & {name, *roots} - set(numbers):
                raise UnfitError(f"{name} is a view of what is changed in place")
    rewriter = _ByIndex(numbers)
    return [rewriter.visit(one) for one in body]


class _ByIndex(ast.NodeTransformer):
    def __init__(self, numbers: Collection[str]) -> None:
        self._numbers = numbers

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        found = _dimension(node, self._numbers)
        if found is None:
            return node
        dim, number = found
        holder, index = f"({ast.unparse(node.value)})", f"({ast.unparse(number)}).reshape(1)"
        text = f"{holder}[{':, ' * dim}{index}][{':, ' * dim}0]"
        if not isinstance(node.ctx, ast.Load):  # what is set has no dimension for the index
            text = f"{holder}.movedim({dim}, 0)[{index}]" if dim else f"{holder}[{index}]"
        made = ast.parse(text, mode="eval").body
        assert isinstance(made, ast.Subscript)
        made.ctx = node.ctx
        return ast.copy_location(made, node)


def _dimension(node: ast.Subscript, numbers: Collection[str]) -> tuple[int, ast.expr] | None:
    """Return the dimension that a number of the loop chooses from, and the number.

    Raises ``UnfitError`` for other forms with such a number.
    """
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    chosen = [at for at, one in enumerate(parts) if _is_round(one, numbers)]
    if len(chosen) == 1 and all(_is_all(one) for at, one in enumerate(parts) if at != chosen[0]):
        return chosen[0], parts[chosen[0]]
    if chosen or any(isinstance(one, ast.Slice) and _mentions(one, numbers) for one in parts):
        raise UnfitError(
            f"`{ast.unparse(node)}` needs the number of the round, a tensor in the loop"
        )
    return None


def _is_round(node: ast.expr, numbers: Collection[str]) -> bool:
    simple = all(isinstance(one, (ast.Name, *_SUM)) for one in ast.walk(node))
    return simple and _mentions(node, numbers)


def _is_all(node: ast.expr) -> bool:
    return isinstance(node, ast.Slice) and node.lower is node.upper is node.step is None


def _mentions(node: ast.AST, numbers: Collection[str]) -> bool:
    return any(isinstance(one, ast.Name) and one.id in numbers for one in ast.walk(node))


def _subscripts(body: Sequence[ast.stmt]) -> Iterator[ast.Subscript]:
    return (one for one in walk(body) if isinstance(one, ast.Subscript))


def _targets(node: ast.AST) -> Iterator[ast.expr]:
    """Yield what a node writes into, other than by the index of a name."""
    if isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load):
        yield node.value
    if isinstance(node, ast.Call):
        yield from (one.value for one in node.keywords if one.arg == "out")
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if isinstance(node.func, ast.Attribute) and name.endswith("_") and not name.endswith("__"):
            yield node.func.value


def shares(node: ast.AST, numbers: Collection[str]) -> bool:
    """Return whether a value may be a view of what a number of the loop chooses."""
    if isinstance(node, _VALUES):
        return False
    if isinstance(node, ast.Subscript):
        return _mentions(node.slice, numbers) or shares(node.value, numbers)
    if isinstance(node, ast.Call):
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else ast.unparse(function)
        if name in COMPUTES:
            return False
    return any(shares(one, numbers) for one in ast.iter_child_nodes(node))
