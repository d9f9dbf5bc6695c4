"""A choice between two tensors by a tensor's value becomes ``torch.where``.

Before::

    if y.sum() > 0:
        y = y + 1

After::

    _one, _other = y + 1, y
    torch._check((_one.shape, _one.dtype) == (_other.shape, _other.dtype))
    torch._check(not (_one.requires_grad or _other.requires_grad))
    y = torch.where((y.sum() > 0).reshape(()), _one, _other)

When not: both sides are worked out, so a side that does more than compute (it prints, raises,
changes something in place) keeps its ``if``; so does one in training, where the gradient of the
side that was not chosen may be NaN. ``torch.cond`` runs one side only. The two checks fail while
the graph is made where ``torch.where`` would promote or broadcast.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import libcst as cst
from libcst import matchers as m

from pytest_graphbreak.model.record import Break
from pytest_graphbreak.repair.patch import Rewrite, SourcePatch, UnfitError
from pytest_graphbreak.repair.rewrite.conditions import condition
from pytest_graphbreak.repair.rewrite.names import changed_after, computes
from pytest_graphbreak.repair.rewrite.reasons import may_branch
from pytest_graphbreak.repair.rewrite.tree import (
    Place,
    body,
    code,
    only,
    operand,
    rewriting,
    statements,
)
from pytest_graphbreak.repair.trial import Trial

_NOT_NONE: Final = m.Comparison(comparisons=[m.ComparisonTarget(m.IsNot(), m.Name("None"))])
_DTYPES: Final[dict[type, str]] = {cst.Integer: "int64", cst.Float: "float64"}
Choice = tuple[str, cst.BaseExpression, cst.BaseExpression, bool]
"""The name that is set, "" for a ``return``; the two values; whether it is changed in place."""


def propose(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    here = item.where
    if may_branch(item) and (here.code.startswith(("if ", "elif ")) or " if " in here.code):
        yield SourcePatch("the branch became torch.where", (Rewrite(CHANGE, here),))


def to_where(place: Place) -> Sequence[cst.BaseStatement]:
    """Return the statements that choose by ``torch.where``. Raises ``UnfitError``."""
    node = place.node
    if not isinstance(node, cst.If):
        value = _value(only(node))
        if not isinstance(value, cst.IfExp):
            raise UnfitError("the choice is part of a longer expression")
        return _where_of(value.test, (_target(only(node)), value.body, value.orelse, False), place)
    test = node.test
    if m.matches(test, m.BooleanOperation(left=_NOT_NONE, operator=m.And())) and not node.orelse:
        both = cst.ensure_type(test, cst.BooleanOperation)
        inner = _where_of(both.right, _choice(node, place), place)
        return [node.with_changes(test=both.left, body=cst.IndentedBlock(list(inner)))]
    return _where_of(test, _choice(node, place), place)


CHANGE: Final = rewriting(to_where)


def _choice(node: cst.If, place: Place) -> Choice:
    """Return what an ``if`` chooses between: its sides, or one and what would be without it."""
    statement = _single(body(node.body))
    name, value = _target(statement), _value(statement)
    if isinstance(node.orelse, cst.Else):
        second = _single(body(node.orelse.body))
    elif node.orelse is None and isinstance(statement, cst.Return):
        second = _single(place.following[:1])
    elif node.orelse is None:
        return name, value, cst.Name(name), isinstance(statement, cst.AugAssign)
    else:
        raise UnfitError("it has an `elif`")
    if type(second) is not type(statement) or _target(second) != name:
        raise UnfitError("the sides set different things")
    return name, value, _value(second), isinstance(statement, cst.AugAssign)


def _single(side: Sequence[cst.BaseStatement]) -> cst.BaseSmallStatement | None:
    return only(side[0]) if len(side) == 1 else None


def _target(node: cst.BaseSmallStatement | None) -> str:
    """Return the name that a statement sets, "" for a ``return``. Raises ``UnfitError``."""
    if isinstance(node, cst.Return):
        return ""
    if isinstance(node, cst.Assign) and len(node.targets) == 1:
        target: object = node.targets[0].target
    else:
        target = node.target if isinstance(node, cst.AugAssign) else None
    if isinstance(target, cst.Name):
        return target.value
    raise UnfitError("a side does more than set one name")


def _value(node: cst.BaseSmallStatement | None) -> cst.BaseExpression:
    if isinstance(node, cst.AugAssign):
        sign = code(node.operator).removesuffix("=")
        return cst.parse_expression(f"{code(node.target)} {sign} {operand(node.value)}")
    value = node.value if isinstance(node, cst.Assign | cst.Return) else None
    if value is None:
        raise UnfitError("a side does more than set one name")
    return value


def _where_of(
    test: cst.BaseExpression, choice: Choice, place: Place
) -> Sequence[cst.BaseStatement]:
    name, *sides, in_place = choice
    for side in sides:
        if isinstance(side, cst.Tuple | cst.List | cst.Dict) or not computes(side):
            raise UnfitError(f"both sides would run, and `{code(side)[:60]}` may do more")
    if name and not in_place and name in changed_after(place):
        raise UnfitError(f"{name} is changed in place later, and would be a new tensor")
    head, first, second = f"{name} = " if name else "return ", *map(code, sides)
    if dtype := _DTYPES.get(type(sides[0])) if type(sides[0]) is type(sides[1]) else None:
        first = f"torch.tensor({first}, dtype=torch.{dtype})"
        return statements(f"{head}torch.where({condition(test, place)}, {first}, {second}).item()")
    chosen = f"torch.where({condition(test, place)}, _one, _other)"
    same = f"torch._check((_one.shape, _one.dtype) == ({name}.shape, {name}.dtype))\n"
    return statements(
        f"_one, _other = {first}, {second}\n"
        "torch._check((_one.shape, _one.dtype) == (_other.shape, _other.dtype))\n"
        f"{same if in_place else ''}"
        "torch._check(not (_one.requires_grad or _other.requires_grad))\n"
        + (f"{name}.copy_({chosen})" if in_place else f"{head}{chosen}")
    )
