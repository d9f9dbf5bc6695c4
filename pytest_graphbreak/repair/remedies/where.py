"""A choice between two tensors by a tensor's value becomes ``torch.where``.

Before::

    if y.sum() > 0:
        y = y + 1

After::

    _if_true, _if_false = y + 1, y
    torch._check((_if_true.shape, _if_true.dtype) == (_if_false.shape, _if_false.dtype))
    torch._check(not (_if_true.requires_grad or _if_false.requires_grad))
    y = torch.where((y.sum() > 0).reshape(()), _if_true, _if_false)

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
from msgspec import Struct

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


class Choice(Struct, frozen=True):
    """The two values that a branch chooses between, and the name that it sets."""

    name: str
    """Empty for a ``return``."""
    values: tuple[cst.BaseExpression, cst.BaseExpression]
    in_place: bool = False
    """Whether the tensor of the name is changed: ``x += 1``."""


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
        choice = Choice(_target(only(node)), (value.body, value.orelse))
        return _where_of(value.test, choice, place)
    test = node.test
    if m.matches(test, m.BooleanOperation(left=_NOT_NONE, operator=m.And())) and not node.orelse:
        both = cst.ensure_type(test, cst.BooleanOperation)
        inner = _where_of(both.right, _choice(node, place), place)
        return [node.with_changes(test=both.left, body=cst.IndentedBlock(list(inner)))]
    return _where_of(test, _choice(node, place), place)


CHANGE: Final = rewriting(to_where)


def _choice(node: cst.If, place: Place) -> Choice:
    """Return what an ``if`` chooses between: its sides, or its side and what is without it."""
    statement = _single(body(node.body))
    name, value, in_place = _target(statement), _value(statement), type(statement) is cst.AugAssign
    if isinstance(node.orelse, cst.Else):
        second = _single(body(node.orelse.body))
    elif node.orelse is None and isinstance(statement, cst.Return):
        second = _single(place.following[:1])
    elif node.orelse is None:
        return Choice(name, (value, cst.Name(name)), in_place)
    else:
        raise UnfitError("it has an `elif`")
    if type(second) is not type(statement) or _target(second) != name:
        raise UnfitError("the sides set different things")
    return Choice(name, (value, _value(second)), in_place)


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
    name, values = choice.name, choice.values
    for value in values:
        if isinstance(value, cst.Tuple | cst.List | cst.Dict) or not computes(value):
            raise UnfitError(f"both sides would run, and `{code(value)[:60]}` may do more")
    if name and not choice.in_place and name in changed_after(place):
        raise UnfitError(f"{name} is changed in place later, and would be a new tensor")
    head, test_text = f"{name} = " if name else "return ", condition(test, place)
    first, second = map(code, values)
    kinds = {type(value) for value in values}
    if len(kinds) == 1 and (dtype := _DTYPES.get(kinds.pop())):  # numbers of Python stay numbers
        first = f"torch.tensor({first}, dtype=torch.{dtype})"
        return statements(f"{head}torch.where({test_text}, {first}, {second}).item()")
    chosen = f"torch.where({test_text}, _if_true, _if_false)"
    lines = [
        f"_if_true, _if_false = {first}, {second}",
        "torch._check((_if_true.shape, _if_true.dtype) == (_if_false.shape, _if_false.dtype))",
        "torch._check(not (_if_true.requires_grad or _if_false.requires_grad))",
        f"{name}.copy_({chosen})" if choice.in_place else f"{head}{chosen}",
    ]
    if choice.in_place:
        same = f"(_if_true.shape, _if_true.dtype) == ({name}.shape, {name}.dtype)"
        lines.insert(2, f"torch._check({same})")
    return statements("\n".join(lines))
