"""Tests of Python as expressions of a bool tensor, for an op that decides by it.

Python computes with numbers that are read from tensors (``x.item()``) as doubles, so they are
converted to that; a comparison of tensors stays one of their own type.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from copy import deepcopy
from typing import Final

from pytest_graphbreak.repair.pure import RANDOM
from pytest_graphbreak.repair.rewrite.scope import Surroundings, UnfitError, walk

STOP: Final = "_stop"
"""The bool tensor that says whether a loop was left by a ``break``."""
_REDUCED: Final = frozenset({"sum", "max", "min", "mean", "norm", "any", "all", "item", "prod"})
_EXACT: Final = (ast.Add, ast.Sub, ast.Mult)
_CHECKS: Final = {
    f"{module}.{name}": f"torch.{name}"
    for module in ("math", "np", "numpy")
    for name in ("isnan", "isinf", "isfinite")
}
"""Checks of a number, each with the function of torch."""
_ASKS: Final = frozenset({"isinstance", "hasattr", "callable", "len", "bool"})


def condition(test: ast.expr) -> str:
    """Return a test as an expression of a bool tensor without dimensions. Raises ``UnfitError``."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        if name_of(test.operand) == STOP:
            return f"torch.logical_not({STOP})"
        return f"torch.logical_not({condition(test.operand)})"
    if isinstance(test, ast.BoolOp):
        return _joined(test)
    if isinstance(test, ast.Compare):
        return _compared(test)
    if isinstance(test, ast.Call) and name_of(test.func) == "bool" and len(test.args) == 1:
        return condition(test.args[0])
    if (whole := _all_alike(test)) is not None:
        return whole
    if (number := _checked_number(test)) is not None:
        test = number
    return f"{_operand(test, exact=True)}.reshape(()).ne(0)"  # a new tensor, and NaN is true


def decided(test: ast.expr, place: Surroundings) -> str:
    """Return the test of a statement, in which numbers that were read before it are tensors again.

    Raises ``UnfitError``.
    """
    numbers = {
        name
        for name, value in place.before.items()
        if value is not None and _is_number(value) and name not in place.several
    }
    return condition(_Numbers(numbers).visit(deepcopy(test)))


class _Numbers(ast.NodeTransformer):
    """Makes names of numbers tensors where they are compared with each other, or with constants."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names

    def visit_Compare(self, node: ast.Compare) -> ast.Compare:
        sides = [node.left, *node.comparators]
        if all(name_of(one) in self._names or _is_constant(one) for one in sides):
            node.left, *node.comparators = map(self._as_tensor, sides)
        return node

    def _as_tensor(self, node: ast.expr) -> ast.expr:
        if name_of(node) not in self._names:
            return node
        text = f"torch.tensor({name_of(node)}, dtype=torch.float64)"
        return ast.parse(text, mode="eval").body


def _is_number(node: ast.expr) -> bool:
    """Return whether an expression visibly computes with a number that was read, and constants."""
    if isinstance(node, ast.BinOp):
        sides = (node.left, node.right)
        return any(map(_is_number, sides)) and all(_is_number(x) or _is_constant(x) for x in sides)
    return _is_read(node)


def _is_constant(node: ast.expr) -> bool:
    inner = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(inner, ast.Constant)


def _checked_number(test: ast.expr) -> ast.expr | None:
    """Return the check of a number, which may also be a tensor, as one of a tensor; else None."""
    called = _CHECKS.get(ast.unparse(test.func)) if isinstance(test, ast.Call) else None
    if called is None or not isinstance(test, ast.Call) or len(test.args) != 1 or test.keywords:
        return None
    if holds_read(test.args[0]):
        return None
    number = f"{in_parentheses(test.args[0])} + torch.zeros((), dtype=torch.float64)"
    return ast.parse(f"{called}({number})", mode="eval").body


def _joined(test: ast.BoolOp) -> str:
    """Return ``and`` or ``or`` as an op.

    What draws random numbers, or an index that may be out of range, is evaluated if Python does.
    """
    both = isinstance(test.op, ast.And)
    name = "logical_and" if both else "logical_or"
    joined = _part(test.values[0])
    for one in test.values[1:]:
        text = _part(one)
        if draws([one]) or _may_raise(one):
            sides = (text, "torch.tensor(False)") if both else ("torch.tensor(True)", text)
            joined = f"torch.cond({joined}, lambda: {sides[0]}, lambda: {sides[1]})"
        else:
            joined = f"torch.{name}({joined}, {text})"
    return joined


def _may_raise(test: ast.expr) -> bool:
    """Return whether an operand has an index that varies: ``n < 5 and x[n] > 0``."""
    return any(
        isinstance(part, ast.Name)
        for one in walk([test])
        if isinstance(one, ast.Subscript)
        for part in ast.walk(one.slice)
    )


def _all_alike(test: ast.expr) -> str | None:
    """Return a comparison of whole tensors as one op, or None for another expression.

    ``torch.allclose`` and ``torch.equal`` give a bool of Python, which ends the graph.
    """
    if not isinstance(test, ast.Call) or not isinstance(test.func, ast.Attribute):
        return None
    name, holder = test.func.attr, test.func.value
    given = test.args if ast.unparse(holder) == "torch" else [holder, *test.args]
    if name == "allclose":
        close = ast.Call(ast.parse("torch.isclose", mode="eval").body, given, test.keywords)
        return f"{ast.unparse(close)}.all()"
    if name == "equal" and len(given) == 2 and not test.keywords:
        one, other = (_operand(each, exact=True) for each in given)
        alike = f"torch.eq({one}, {other}).all()"  # which would broadcast
        return f"({alike} if {one}.shape == {other}.shape else torch.tensor(False))"
    return None


def _part(test: ast.expr) -> str:
    """Return one operand of ``and`` or ``or``, which may be a flag or compare two numbers."""
    if isinstance(test, ast.Compare):
        text = _compared(test, plain=True)
        return f"torch.as_tensor({text}).reshape(())"
    if isinstance(test, ast.Call) and name_of(test.func) in _ASKS - {"bool"}:
        return f"torch.tensor(bool({ast.unparse(test)}))"
    if isinstance(test, ast.Name | ast.Attribute):  # not as_tensor: a list [0] is true
        return f"({ast.unparse(test)} | torch.tensor(False)).reshape(()).bool()"
    return condition(test)


def _compared(test: ast.Compare, *, plain: bool = False) -> str:
    if len(test.ops) != 1:
        raise UnfitError("a comparison of more than two")
    sides = [test.left, test.comparators[0]]
    exact = all(_whole(one) or _is_read(one) for one in sides)
    texts = [_operand(one, exact=exact) for one in sides]
    sign = ast.unparse(ast.Compare(ast.Name("a"), test.ops, [ast.Name("b")]))[1:-1]
    text = f"{texts[0]}{sign}{texts[1]}"
    scalar = all(isinstance(one, ast.Constant) or reduced(one) for one in sides)
    if plain or (scalar and any(map(reduced, sides))):
        return text
    return f"({text}).reshape(())"


def _whole(node: ast.expr) -> bool:
    """Return whether a node is a number that all floating types represent exactly.

    Python compares with it in the same way as tensors of any type do.
    """
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    number = node.value if isinstance(node, ast.Constant) else None
    return isinstance(number, int | float) and abs(number) <= 128 and number * 2 == int(number * 2)


def _operand(node: ast.expr, *, exact: bool) -> str:
    """Return the tensor behind an expression that reads its number.

    If not ``exact``, it is converted to double, because Python compares the number as one.
    """
    value = read_from(node)
    if isinstance(node, ast.Call) and value is None and _is_read(node):
        return f"{_operand(node.args[0], exact=exact)}.abs()"
    if value is None:
        return in_parentheses(as_doubles(node) if holds_read(node) else node)
    text = _operand(value, exact=True)
    return text if exact else f"{text}.double()"


def in_parentheses(node: ast.expr) -> str:
    """Return an expression as text that a method or an operator can follow."""
    text = ast.unparse(node)
    simple = isinstance(node, ast.Name | ast.Call | ast.Attribute | ast.Subscript | ast.Constant)
    return text if simple else f"({text})"


def holds_read(node: ast.expr) -> bool:
    """Return whether an expression reads a number from a tensor somewhere."""
    return any(isinstance(one, ast.expr) and read_from(one) is not None for one in walk([node]))


def as_doubles(node: ast.expr) -> ast.expr:
    """Return arithmetic with numbers that are read from tensors as arithmetic of double tensors.

    Raises ``UnfitError`` for what Python's numbers do and tensors do not: a division by zero
    raises, and so does a root or a power of some numbers.
    """
    if (tensor := read_from(node)) is not None:
        text = f"{in_parentheses(tensor)}.double().reshape(())"
        return ast.parse(text, mode="eval").body
    if not holds_read(node):
        return node
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        return ast.UnaryOp(node.op, as_doubles(node.operand))
    if isinstance(node, ast.BinOp) and (isinstance(node.op, _EXACT) or _divides(node)):
        return ast.BinOp(as_doubles(node.left), node.op, as_doubles(node.right))
    if isinstance(node, ast.Call) and not node.keywords:
        given = [as_doubles(one) for one in node.args]
        called = ast.unparse(node.func)
        if called == "abs":
            return ast.Call(node.func, given, [])
        if called in _CHECKS:
            return ast.Call(ast.parse(_CHECKS[called], mode="eval").body, given, [])
        if called in ("max", "min") and len(given) > 1:
            return _largest(given, ">" if called == "max" else "<")
    raise UnfitError(f"`{ast.unparse(node)[:60]}` computes with numbers that tensors hold")


def _divides(node: ast.BinOp) -> bool:
    """Return whether a division is one by a number that is visibly not zero."""
    return (
        isinstance(node.op, ast.Div)
        and isinstance(node.right, ast.Constant)
        and bool(node.right.value)
    )


def _largest(values: Sequence[ast.expr], sign: str) -> ast.expr:
    """Return ``max`` or ``min`` as Python chooses: NaN is neither larger nor smaller."""
    chosen, *rest = map(in_parentheses, values)
    for one in rest:
        chosen = f"torch.where({one} {sign} {chosen}, {one}, {chosen})"
    return ast.parse(chosen, mode="eval").body


def chosen_number(test: str, one: ast.Constant, other: ast.Constant) -> str:
    """Return the choice between two numbers as a number: a tensor would promote other operands.

    Raises ``UnfitError``.
    """
    kinds = {type(one.value), type(other.value)}
    dtype = {float: "float64", int: "int64", bool: "bool"}.get(kinds.pop())
    if kinds or dtype is None:
        raise UnfitError("the sides are no numbers of one type")
    first, second = ast.unparse(one), ast.unparse(other)
    return f"torch.where({test}, torch.tensor({first}, dtype=torch.{dtype}), {second}).item()"


class Chosen(ast.NodeTransformer):
    """Replaces ``max(a, b)``, ``min(a, b)`` and ``1 if a else 2`` by ops if ``names`` decide.

    These are tensors without dimensions, and Python would need their value.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._names = names

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        called = name_of(node.func)
        if called not in ("max", "min") or len(node.args) < 2 or node.keywords:
            return node
        if not self._decide(node.args):
            return node
        return _largest(node.args, ">" if called == "max" else "<")

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        numbers = isinstance(node.body, ast.Constant) and isinstance(node.orelse, ast.Constant)
        if not numbers or not self._decide([node.test]):
            return node
        assert isinstance(node.body, ast.Constant)
        assert isinstance(node.orelse, ast.Constant)
        chosen = chosen_number(condition(node.test), node.body, node.orelse)
        return ast.parse(chosen, mode="eval").body

    def _decide(self, nodes: Sequence[ast.expr]) -> bool:
        names = (one.id for one in walk(nodes) if isinstance(one, ast.Name))
        return any(name in self._names for name in names)


def read_from(node: ast.expr) -> ast.expr | None:
    """Return ``t`` of ``t.item()`` or ``float(t)``, or None for anything else."""
    if not isinstance(node, ast.Call) or node.keywords:
        return None
    if isinstance(node.func, ast.Attribute) and node.func.attr == "item" and not node.args:
        return node.func.value
    one = node.args[0] if len(node.args) == 1 else None
    return None if name_of(node.func) != "float" or isinstance(one, ast.Constant) else one


def _is_read(node: ast.expr) -> bool:
    """Return whether a number is read from a tensor, or the absolute value of one that is."""
    if isinstance(node, ast.Call) and name_of(node.func) == "abs" and len(node.args) == 1:
        node = node.args[0]
    return read_from(node) is not None


def reduced(node: ast.expr) -> bool:
    """Return whether a node is a call that gives a tensor without dimensions: ``x.sum()``."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _REDUCED
        and not node.args
        and not node.keywords
    )


def name_of(node: ast.expr) -> str:
    """Return the name that an expression is, or an empty text."""
    return node.id if isinstance(node, ast.Name) else ""


def draws(nodes: Sequence[ast.AST]) -> str:
    """Return the first call that draws random numbers, or an empty text."""
    calls = (node for node in walk(nodes) if isinstance(node, ast.Call))
    return next(
        (ast.unparse(one)[:60] for one in calls if getattr(one.func, "attr", "") in RANDOM), ""
    )


def draws_in_python(nodes: Sequence[ast.AST]) -> str:
    """Return the first call of ``random`` or of NumPy's, or an empty text.

    Dynamo draws their numbers before the graph runs, also for a side that does not run.
    """
    calls = (ast.unparse(node)[:60] for node in walk(nodes) if isinstance(node, ast.Call))
    roots = ("random.", "np.random.", "numpy.random.", "_graphbreak_drawn(")
    return next((one for one in calls if one.startswith(roots)), "")
