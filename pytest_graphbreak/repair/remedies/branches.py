"""A branch on a tensor's value becomes ``torch.where``, or ``torch.cond``.

Before::

    if y.sum() > 0:
        y = y + 1

After::

    y = torch.where(y.sum() > 0, y + 1, y)
    y = torch.cond(y.sum() > 0, lambda: y + 1, lambda: y.clone())

``torch.where`` runs both sides, so there are two rules for them. Both are made of one tensor, so
that they have the same shape: ``x * 2`` and ``x + 1``, but not ``x`` and ``y``. And the gradient of
their operations is a number for any input: that of ``x.sqrt()`` at -1 is NaN, and would stay NaN
although ``torch.where`` chose the other side.

All else is for ``torch.cond``, which runs one side. Both have to give a tensor of the same shape
and dtype, and change nothing in place: torch refuses the rest while the graph is made.

``propose`` is called for each break. Its patches are tried later: ``rewriting`` of ``tree`` then
looks for the statement of the line that broke, as a ``Place`` (its libcst node, its function, its
file), and calls ``to_where`` or ``to_cond`` with it. A branch is read in two parts: ``choice_of``
says what it chooses between, and ``condition`` makes a tensor of its test. Each raises an
``UnfitError`` where it cannot be rewritten, with the reason, which ``fix`` prints.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import libcst as cst
from libcst import matchers as m
from msgspec import Struct

from pytest_graphbreak.model.items import Break
from pytest_graphbreak.repair.patches import SourcePatch, UnfitError
from pytest_graphbreak.repair.remedies.tree import (
    Place,
    attribute_of,
    body,
    code,
    only,
    operand,
    rewriting,
    walk,
)
from pytest_graphbreak.repair.trial import Trial

_READS: Final = m.OneOf(
    m.Call(func=m.Attribute(attr=m.Name("item")), args=[]),
    m.Call(func=m.Name("float"), args=[m.Arg(m.DoesNotMatch(m.SimpleString()), keyword=None)]),
)
"""Matches ``t.item()`` and ``float(t)``."""
_NUMBER: Final = m.Integer() | m.Float() | m.UnaryOperation(m.Minus(), m.Integer() | m.Float())
"""Matches ``1``, ``0.5`` and ``-1``."""
_LINEAR: Final = m.Name("clamp") | m.Name("neg") | m.Name("relu")
"""Functions of each element whose gradient is a number whatever the element is, also of NaN."""
_SMALL: Final = 128
"""Up to here each floating type holds all whole and half numbers: bfloat16 has
eight binary digits, and 127.5 is 1111111.1."""
_BOOLS: Final = ("all", "any", "isfinite", "isinf", "isnan", "logical_and", "logical_or")
"""Functions that give bools, so that nothing is compared with zero."""
_REDUCES: Final = ("all", "any", "max", "mean", "min", "norm", "prod", "std", "sum", "var")
"""Functions that give a tensor without dimensions if they have no further argument."""
_IN_PLACE: Final = m.OneOf(
    m.AugAssign(),
    m.Call(
        func=m.Attribute(
            attr=m.Name(m.MatchIfTrue(lambda name: name.endswith("_") and name[-2:] != "__"))
        )
    ),
    m.Call(args=[m.ZeroOrMore(), m.Arg(keyword=m.Name("out")), m.ZeroOrMore()]),
    m.AssignTarget(target=m.Subscript()),
)
"""Matches what may change a tensor in place: ``x += 1``, ``x.add_(1)``, ``out=x``, ``x[0] = 1``."""
_MORE: Final = m.NamedExpr() | m.Await() | m.Yield() | m.Lambda()
"""Matches what does more than compute a value: ``(y := x)``, ``await x``, ``yield x``, a lambda."""


def propose(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose both, the one that changes less first, where the line that broke has an ``if``."""
    if "if " in item.where.code.replace("(", " ("):  # ``if(t):`` is a branch, too
        for name, write in (("torch.where", to_where), ("torch.cond", to_cond)):
            change = rewriting(write, item.where)
            yield SourcePatch(f"the branch became {name}", change, item.where.file)


def to_where(place: Place) -> str:
    """Return the statement that chooses by ``torch.where``. Raises ``UnfitError``."""
    choice = choice_of(place)
    names = {name for value in choice.values for name in _elements(value)}
    if len(names) != 1:
        raise UnfitError(f"its sides may differ in shape: {' and '.join(map(code, choice.values))}")
    return f"{choice.head}torch.where({choice.test}, {', '.join(map(code, choice.values))})"


def to_cond(place: Place) -> str:
    """Return the statement that chooses by ``torch.cond``. Raises ``UnfitError``."""
    choice = choice_of(place)
    sides = []
    for value in choice.values:
        if isinstance(value, cst.Tuple | cst.List | cst.Dict | cst.Integer | cst.Float):
            raise UnfitError(f"`{code(value)[:60]}` is no tensor")
        # torch.cond refuses a side that gives one of its inputs as it is.
        sides.append(f"lambda: {code(value)}{'.clone()' if isinstance(value, cst.Name) else ''}")
    return f"{choice.head}torch.cond({choice.test}, {', '.join(sides)})"


def _elements(value: cst.BaseExpression) -> set[str]:
    """Return the names of the tensors that a value is computed from, element by element.

    ``{"x"}`` of ``2 * -x + 1``, ``{"x", "y"}`` of ``x.clamp(min=y)``. Raises ``UnfitError`` for all
    other operations, which may change the shape, have a NaN as gradient, or do something else.
    """
    if isinstance(value, cst.Name):
        return {value.value}
    if m.matches(value, _NUMBER):
        return set()
    if m.matches(value, m.UnaryOperation(m.Minus())):
        return _elements(cst.ensure_type(value, cst.UnaryOperation).expression)
    if isinstance(value, cst.BinaryOperation):
        is_sum = m.matches(value.operator, m.Add() | m.Subtract())
        by_number = m.matches(value.operator, m.Multiply() | m.Divide())
        if is_sum or (by_number and m.matches(value.right, _NUMBER)):
            return _elements(value.left) | _elements(value.right)
    if m.matches(value, m.Call(func=m.Attribute(attr=_LINEAR))):
        call = cst.ensure_type(value, cst.Call)
        owner = cst.ensure_type(call.func, cst.Attribute).value
        parts = [argument.value for argument in call.args]
        parts += [] if m.matches(owner, m.Name("torch")) else [owner]
        return {name for part in parts for name in _elements(part)}
    raise UnfitError(f"both sides would run, and `{code(value)[:60]}` may do more, or be NaN")


class Choice(Struct, frozen=True):
    """The two values that a branch chooses between, and ``name = `` or ``return ``.

    =====================================  ==============  ============
    the branch                             ``head``        ``values``
    =====================================  ==============  ============
    ``if t: x = a`` and ``else: x = b``    ``x = ``        a, b
    ``if t: x = a``                        ``x = ``        a, x
    ``if t: return a``, then ``return b``  ``return ``     a, b
    ``x = a if t else b``                  ``x = ``        a, b
    ``return a if t else b``               ``return ``     a, b
    =====================================  ==============  ============
    """

    test: str
    """The expression of the bool tensor ``t`` (``condition``)."""
    head: str
    values: tuple[cst.BaseExpression, cst.BaseExpression]


def choice_of(place: Place) -> Choice:
    """Return what a branch chooses. Raises ``UnfitError`` where it does more."""
    node = place.node
    if isinstance(node, cst.If):
        test, (first, second) = node.test, _sides(node, place)
        head = _head(first)
        if second is not None and _head(second) != head:
            raise UnfitError("its sides set different names")
        # Only after an assignment there may be no second side: the name is what it was.
        otherwise = _value(second) if second else cst.Name(head.removesuffix(" = "))
        values = (_value(first), otherwise)
    else:
        statement = only(node)
        choice = _value(statement)
        if not isinstance(choice, cst.IfExp):
            raise UnfitError("it is no choice of one value")
        test, head, values = choice.test, _head(statement), (choice.body, choice.orelse)
    _refuse_effects(place, head, values)
    return Choice(condition(test), head, values)


def _refuse_effects(
    place: Place, head: str, values: tuple[cst.BaseExpression, cst.BaseExpression]
) -> None:
    """Raise ``UnfitError`` where a value does more than compute, or is changed in place.

    After ``z = x`` a change ``z += 1`` changes ``x``, too. After ``z = torch.where(t, x, y)`` it
    would not, since that is a new tensor. So no name of the choice may be changed in the function.
    """
    names = {x.value for value in values for x in walk([value]) if isinstance(x, cst.Name)}
    names.add(head.removesuffix(" = "))
    changing = (x for x in walk([place.function.body]) if m.matches(x, _IN_PLACE))
    for change in (x for x in changing if _base(x) in names):
        raise UnfitError(f"`{code(change)[:60]}` changes a tensor in place")
    for value in values:
        if any(m.matches(part, _MORE) for part in walk([value])):
            raise UnfitError(f"`{code(value)[:60]}` does more than compute")


def _sides(
    node: cst.If, place: Place
) -> tuple[cst.BaseSmallStatement | None, cst.BaseSmallStatement | None]:
    """Return the statements of both sides of a branch.

    The other side is the ``else``; or, where the branch returns, the statement that follows it; or
    None, after an assignment.
    """
    first = body(node.body)
    if isinstance(node.orelse, cst.If):
        raise UnfitError("it has an `elif`")
    second = body(node.orelse.body) if node.orelse else []
    if not second and place.returns:
        second = place.following[:1]
        if not second:
            raise UnfitError("nothing is returned else")
    if len(first) != 1 or len(second) > 1:
        raise UnfitError("a side does more than set one name")
    return only(first[0]), only(second[0]) if second else None


def _head(node: cst.BaseSmallStatement | None) -> str:
    """Return ``name = ``, or ``return ``. Raises ``UnfitError``."""
    if isinstance(node, cst.Return):
        return "return "
    if m.matches(node or cst.Pass(), m.Assign(targets=[m.AssignTarget(m.Name())])):
        return f"{code(cst.ensure_type(node, cst.Assign).targets[0].target)} = "
    raise UnfitError("a side does more than set one name")


def _value(node: cst.BaseSmallStatement | None) -> cst.BaseExpression:
    """Return ``a`` of ``x = a`` or ``return a``. Raises ``UnfitError``."""
    value = node.value if isinstance(node, cst.Assign | cst.Return) else None
    if value is None:
        raise UnfitError("a side does more than set one name")
    return value


def _base(node: cst.CSTNode) -> str:
    """Return ``x`` of ``x[0] += 1``, ``x.data.add_(1)``; "" where no name is at the beginning."""
    part: cst.CSTNode = node
    while not isinstance(part, cst.Name):
        if isinstance(part, cst.AugAssign | cst.AssignTarget):
            part = part.target
        elif isinstance(part, cst.Call):
            part = part.func
        elif isinstance(part, cst.Attribute | cst.Subscript):
            part = part.value
        else:
            return ""
    return part.value


def condition(test: cst.BaseExpression) -> str:
    """Return a test as an expression of a bool tensor without dimensions. Raises ``UnfitError``.

    ==============================  ==============================
    the test                        the condition
    ==============================  ==============================
    ``not x.any()``                 ``torch.logical_not(x.any())``
    ``bool(x.sum())``, ``x.sum()``  ``x.sum() != 0``
    ``x.max().item() > 0.5``        ``x.max() > 0.5``
    ``x.max().item() > 0.1``        ``x.max().double() > 0.1``
    ``x[:1] > 0``                   ``(x[:1] > 0).reshape(())``
    ==============================  ==============================
    """
    if m.matches(test, m.UnaryOperation(m.Not())):
        negated = cst.ensure_type(test, cst.UnaryOperation).expression
        return f"torch.logical_not({condition(negated)})"
    if isinstance(test, cst.Comparison):
        return _comparison(test)
    if m.matches(test, m.Call(func=m.Name("bool"), args=[m.Arg(keyword=None)])):
        return condition(cst.ensure_type(test, cst.Call).args[0].value)
    if not isinstance(test, cst.Call):
        raise UnfitError(f"`{code(test)[:60]}` may be no tensor")
    text = _tensor(test, exact=True)
    shaped = text if _reduces(test) else f"{text}.reshape(())"
    # ``!= 0`` gives a new bool tensor, and takes NaN as true, as ``bool()`` does.
    return shaped if attribute_of(test) in _BOOLS else f"{shaped} != 0"


def _comparison(test: cst.Comparison) -> str:
    """Return the condition of a comparison: the last three rows of the table above."""
    if len(test.comparisons) != 1:
        raise UnfitError("a comparison of more than two")
    target = test.comparisons[0]
    sides = [test.left, target.comparator]
    # Python compares doubles: ``x.item() > 0.1`` is true of 0.1 in float32, which is a little more
    # than the double 0.1, but ``x > 0.1`` is not, as torch rounds the 0.1 to float32. A number that
    # each type holds exactly, such as 0.5, needs no double.
    exact = all(_is_small(side) or m.matches(side, _READS) for side in sides)
    texts = [_tensor(side, exact=exact) for side in sides]
    text = f"{texts[0]} {code(target.operator)} {texts[1]}"
    tensors = [side for side in sides if not m.matches(side, _NUMBER)]
    return text if tensors and all(map(_reduces, tensors)) else f"({text}).reshape(())"


def _is_small(node: cst.BaseExpression) -> bool:
    """Return whether a node is a number that all floating types hold exactly."""
    if not m.matches(node, _NUMBER):
        return False
    number = float(code(node))
    return abs(number) <= _SMALL and number * 2 == int(number * 2)


def _tensor(node: cst.BaseExpression, *, exact: bool) -> str:
    """Return an expression with the tensor in the place of a number that is read from it.

    ``x.max()`` of ``x.max().item()`` if the comparison is ``exact`` in the type of the tensor, else
    ``x.max().double()``: Python's numbers are doubles.
    """
    if m.matches(node, _READS):
        text = operand(_read_of(node))
        return text if exact else f"{text}.double()"
    if m.findall(node, _READS):
        raise UnfitError(f"`{code(node)[:60]}` computes with numbers that tensors hold")
    return operand(node)


def _read_of(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return ``t`` of ``t.item()`` or ``float(t)``."""
    call = cst.ensure_type(node, cst.Call)
    return call.args[0].value if call.args else cst.ensure_type(call.func, cst.Attribute).value


def _reduces(node: cst.BaseExpression) -> bool:
    """Return whether a tensor visibly has no dimensions: ``x.sum()``, ``torch.any(x)``."""
    tensor = _read_of(node) if m.matches(node, _READS) else node
    if not isinstance(tensor, cst.Call) or attribute_of(tensor) not in _REDUCES:
        return False
    by_torch = m.matches(tensor.func, m.Attribute(value=m.Name("torch")))
    return len(tensor.args) == (1 if by_torch else 0)
