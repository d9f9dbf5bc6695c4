"""Tests of Python as bool tensors without dimensions, for an op that decides by them.

Python computes with numbers that it reads from tensors (``x.item()``) as doubles, so they become
tensors of that type; a comparison of tensors stays one of their own type.
"""

from __future__ import annotations

from typing import Final

import libcst as cst
from libcst import matchers as m

from pytest_graphbreak.repair.patch import UnfitError
from pytest_graphbreak.repair.rewrite.names import draws, value
from pytest_graphbreak.repair.rewrite.tree import Place, attribute_of, code, operand, walk

READS: Final = m.OneOf(
    m.Call(func=m.Attribute(attr=m.Name("item")), args=[]),
    m.Call(func=m.Name("float"), args=[m.Arg(m.DoesNotMatch(m.SimpleString()), keyword=None)]),
)
"""Matches ``t.item()`` and ``float(t)``."""
_NUMBER: Final = m.OneOf(
    m.Integer(), m.Float(), m.UnaryOperation(m.Minus(), m.OneOf(m.Integer(), m.Float()))
)
_SMALL: Final = 128
_EXACT: Final = m.OneOf(m.Add(), m.Subtract(), m.Multiply())
_CHECKS: Final = ("isnan", "isinf", "isfinite")
_FLAGS: Final = m.OneOf(m.Name(), m.Attribute())
_ASKS: Final = m.Call(func=m.OneOf(*map(m.Name, ("isinstance", "hasattr", "callable", "len"))))
_NONE: Final = m.Comparison(comparisons=[m.ComparisonTarget(m.OneOf(m.Is(), m.IsNot()))])


def condition(test: cst.BaseExpression, place: Place) -> str:
    """Return a test as an expression of a bool tensor. Raises ``UnfitError``."""
    if m.matches(test, m.UnaryOperation(m.Not())):
        inner = cst.ensure_type(test, cst.UnaryOperation).expression
        return f"torch.logical_not({condition(inner, place)})"
    if isinstance(test, cst.BooleanOperation):
        return _both(test, place)
    if isinstance(test, cst.Comparison):
        return f"({_comparison(test, place)}).reshape(())"
    if m.matches(test, m.Call(func=m.Name("bool"), args=[m.Arg(keyword=None)])):
        return condition(cst.ensure_type(test, cst.Call).args[0].value, place)
    if isinstance(test, cst.Call) and (comparison := _compares_all(test)):
        return comparison
    if isinstance(test, cst.Call) and (check := _checks_number(test, place)):
        return check
    return f"{tensor(test)}.reshape(()).ne(0)"  # a new tensor, and NaN is true


def _checks_number(test: cst.Call, place: Place) -> str:
    """Return ``math.isfinite(loss)`` of a number that was read before as an op, or ""."""
    name, arguments = attribute_of(test), [argument.value for argument in test.args]
    if name not in _CHECKS or len(arguments) != 1:
        return ""
    number = _as_read(arguments[0], place)
    return "" if number is arguments[0] else f"torch.{name}({code(number)})"


def _both(test: cst.BooleanOperation, place: Place) -> str:
    """Return ``and`` or ``or`` as an op, which works out both sides."""
    name = "logical_and" if isinstance(test.operator, cst.And) else "logical_or"
    if draws([test.right]) or any(_may_raise(node) for node in walk([test.right])):
        raise UnfitError(f"`{code(test.right)[:60]}` may raise or draw where Python leaves it out")
    return f"torch.{name}({_part(test.left, place)}, {_part(test.right, place)})"


def _may_raise(node: cst.CSTNode) -> bool:
    """Return whether a node has an index that varies: ``n < 5 and x[n] > 0``."""
    return isinstance(node, cst.Subscript) and any(
        isinstance(part, cst.Name) for part in walk(node.slice)
    )


def _part(test: cst.BaseExpression, place: Place) -> str:
    """Return an operand of ``and`` or ``or``, which may be a flag or compare two numbers."""
    if m.matches(test, _NONE | _ASKS):
        return f"torch.tensor(bool({code(test)}))"
    if isinstance(test, cst.Comparison):
        return f"torch.as_tensor({_comparison(test, place)}).reshape(())"
    if m.matches(test, _FLAGS):  # a list is no flag: [0] is true, and this raises
        return f"({code(test)} | torch.tensor(False)).reshape(()).bool()"
    return condition(test, place)


def _comparison(test: cst.Comparison, place: Place) -> str:
    if len(test.comparisons) != 1:
        raise UnfitError("a comparison of more than two")
    target = test.comparisons[0]
    sides = [_as_read(side, place) for side in (test.left, target.comparator)]
    exact = all(_is_small(side) or m.matches(side, READS) for side in sides)
    texts = [tensor(side, exact=exact) for side in sides]
    return f"{texts[0]} {code(target.operator)} {texts[1]}"


def _as_read(node: cst.BaseExpression, place: Place) -> cst.BaseExpression:
    """Return a name of a number that was read before as a tensor again."""
    number = value(place, node.value) if isinstance(node, cst.Name) else None
    in_loop = number is not None and any(node is number for node in walk([place.node]))
    if number is None or in_loop or not m.findall(number, READS):
        return node  # a loop that becomes an operator makes it a tensor itself
    return cst.parse_expression(f"torch.tensor({code(node)}, dtype=torch.float64)")


def is_number(node: cst.BaseExpression) -> bool:
    """Return whether an expression is a number of Python that is visibly one."""
    return m.matches(node, _NUMBER | READS)


def _is_small(node: cst.BaseExpression) -> bool:
    """Return whether a node is a number that all floating types hold exactly."""
    if not m.matches(node, _NUMBER):
        return False
    number = float(code(node))
    return abs(number) <= _SMALL and number * 2 == int(number * 2)


def tensor(node: cst.BaseExpression, *, exact: bool = False) -> str:
    """Return an expression in which tensors take the place of numbers that are read from them.

    They are doubles, as Python's numbers are, unless they are compared ``exact`` as they are.
    Raises ``UnfitError`` for what Python's numbers do and tensors do not: a division by zero.
    """
    if m.matches(node, READS):
        text = operand(read_of(cst.ensure_type(node, cst.Call)))
        return text if exact else f"{text}.double()"
    if not m.findall(node, READS):
        return operand(node)
    if m.matches(node, m.UnaryOperation(m.Minus())):
        return f"(-{tensor(cst.ensure_type(node, cst.UnaryOperation).expression)})"
    if isinstance(node, cst.BinaryOperation) and (
        m.matches(node.operator, _EXACT)
        or (m.matches(node.operator, m.Divide()) and m.matches(node.right, _NUMBER))
    ):
        return f"({tensor(node.left)} {code(node.operator)} {tensor(node.right)})"
    if isinstance(node, cst.Call) and len(node.args) == 1:
        inner = tensor(node.args[0].value)
        if m.matches(node.func, m.Name("abs")):
            return f"{inner}.abs()"
        if attribute_of(node) in _CHECKS:  # of math or numpy
            return f"torch.{attribute_of(node)}({inner})"
    raise UnfitError(f"`{code(node)[:60]}` computes with numbers that tensors hold")


def read_of(call: cst.Call) -> cst.BaseExpression:
    """Return ``t`` of ``t.item()`` or ``float(t)``."""
    return call.args[0].value if call.args else cst.ensure_type(call.func, cst.Attribute).value


def _compares_all(test: cst.Call) -> str:
    """Return a comparison of whole tensors as one op; torch gives a bool of Python, a break."""
    name = attribute_of(test)
    if name not in ("allclose", "equal") or not isinstance(test.func, cst.Attribute):
        return ""
    by_torch = m.matches(test.func.value, m.Name("torch"))
    arguments = [] if by_torch else [code(test.func.value)]
    arguments += [code(x.with_changes(comma=cst.MaybeSentinel.DEFAULT)) for x in test.args]
    if name == "allclose":
        return f"torch.isclose({', '.join(arguments)}).all()"
    if len(arguments) != 2 or any(x.keyword for x in test.args):
        return ""
    alike = f"torch.eq({', '.join(arguments)}).all()"  # which broadcasts
    return f"({alike} if {arguments[0]}.shape == {arguments[1]}.shape else torch.tensor(False))"
