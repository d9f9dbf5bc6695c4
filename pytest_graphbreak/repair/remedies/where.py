"""A choice between two tensors by a tensor's value becomes ``torch.where``.

Before::

    if y.sum() > 0:
        y = y + 1

After::

    y = torch.where(y.sum() > 0, y + 1, y)

When not: both sides are worked out, so they are only what has the shape of one tensor, and a
gradient that is a number where the side is not chosen: a root or a sine is for ``torch.cond``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import libcst as cst
from libcst import matchers as m

from pytest_graphbreak.model.record import Break
from pytest_graphbreak.repair.patch import SourcePatch, UnfitError
from pytest_graphbreak.repair.rewrite.choices import choice_of
from pytest_graphbreak.repair.rewrite.tree import Place, code, rewriting
from pytest_graphbreak.repair.trial import Trial

_NUMBER: Final = m.Integer() | m.Float() | m.UnaryOperation(m.Minus(), m.Integer() | m.Float())
_LINEAR: Final = m.Name("clamp") | m.Name("neg") | m.Name("relu")
"""Functions of each element whose gradient is a number whatever the element is, also of NaN."""


def propose(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    if "if " in item.where.code:
        yield SourcePatch("the branch became torch.where", CHANGE, item.where)


def to_where(place: Place) -> str:
    """Return the statement that chooses by ``torch.where``. Raises ``UnfitError``."""
    choice = choice_of(place)
    names = {name for value in choice.values for name in _elements(value)}
    if len(names) != 1:
        raise UnfitError(f"its sides may differ in shape: {' and '.join(map(code, choice.values))}")
    return f"{choice.head}torch.where({choice.test}, {', '.join(map(code, choice.values))})"


CHANGE: Final = rewriting(to_where)


def _elements(value: cst.BaseExpression) -> set[str]:
    """Return the tensors that a value is worked out of, element by element."""
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
