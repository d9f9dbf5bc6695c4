"""A branch on a tensor's value becomes ``torch.cond``, which runs one of its sides.

Before::

    if x.norm() > 1:
        x = x / x.norm()

After::

    def _when_true(x):
        x = x / x.norm()
        return (x,)

    def _when_false(x):
        return (x.clone(),)

    (x,) = torch.cond((x.norm() > 1).reshape(()), _when_true, _when_false, (x,))

When not: both sides have to give tensors of the same shapes and dtypes, and change nothing in
place: torch refuses the rest while the graph is made. For a side that prints or raises there are
other remedies.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

import libcst as cst
from libcst import matchers as m

from pytest_graphbreak.model.record import Break
from pytest_graphbreak.repair.patch import Rewrite, SourcePatch, UnfitError
from pytest_graphbreak.repair.rewrite.conditions import condition
from pytest_graphbreak.repair.rewrite.names import (
    after,
    before,
    bound,
    changed_after,
    changing,
    draws,
    read,
)
from pytest_graphbreak.repair.rewrite.reasons import may_branch
from pytest_graphbreak.repair.rewrite.tree import (
    Place,
    body,
    code,
    function,
    only,
    rewriting,
    statements,
    walk,
)
from pytest_graphbreak.repair.trial import Trial

_FRESH: Final = m.OneOf(m.BinaryOperation(), m.Comparison())
"""What is surely a new tensor, and no input of the op."""
_LEAVES: Final = m.OneOf(
    *(m.Return(), m.Break(), m.Continue(), m.Raise(), m.Yield(), m.Await(), m.Try(), m.With()),
    *(m.Global(), m.Nonlocal(), m.Del(), m.NamedExpr(), m.Import(), m.ImportFrom()),
    m.AssignTarget(target=m.Attribute()),
)
"""What no side of an op can do."""


def propose(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    here = item.where
    if may_branch(item) and (here.code.startswith("if ") or " if " in here.code):
        yield SourcePatch("the branch became torch.cond", (Rewrite(CHANGE, here),))


def to_cond(place: Place) -> Sequence[cst.BaseStatement]:
    """Return the statements that choose by ``torch.cond``. Raises ``UnfitError``."""
    node = place.node
    if isinstance(node, cst.If):
        test = node.test
        sides = [
            body(node.body),
            body(node.orelse.body) if isinstance(node.orelse, cst.Else) else [],
        ]
        if isinstance(node.orelse, cst.If):
            raise UnfitError("it has an `elif`")
        if not node.orelse and _returns(sides[0]):
            sides[1] = place.following[:1]
    else:
        statement = only(node)
        if not isinstance(statement, cst.Assign) or not isinstance(statement.value, cst.IfExp):
            raise UnfitError("it is no branch")
        test, values = statement.value.test, (statement.value.body, statement.value.orelse)
        sides = [[cst.SimpleStatementLine([statement.with_changes(value=x)])] for x in values]
    return _written(condition(test, place), sides, place)


CHANGE: Final = rewriting(to_cond)


def _written(
    test: str, sides: Sequence[Sequence[cst.BaseStatement]], place: Place
) -> Sequence[cst.BaseStatement]:
    leaves = [_returns(side) for side in sides]
    bodies = [side[:-1] if gone else side for side, gone in zip(sides, leaves, strict=True)]
    refuse([*bodies[0], *bodies[1]])
    set_before, names = before(place), bound(place, [place.node])
    if all(leaves):
        results = [returned(cst.ensure_type(only(side[-1]), cst.Return).value) for side in sides]
        head, out = "return ", []
    elif any(leaves):
        raise UnfitError("one side returns, and nothing follows the other")
    else:
        later = set(after(place))
        out = [name for name in names if name in later]
        _check(out, sides, place)
        lists = _lists([*sides[0], *sides[1]])
        results = [
            f"({', '.join(output_of(name, side, lists) for name in out)},)" for side in sides
        ]
        head = f"({', '.join(out)},) = "
    needed = {*read(place, [place.node]), *out}
    operands = [name for name in names if name in set_before and name in needed]
    return operator(test, bodies, results, operands, head)


def operator(
    test: str,
    sides: Sequence[Sequence[cst.BaseStatement]],
    results: Sequence[str],
    operands: Sequence[str],
    head: str,
) -> Sequence[cst.BaseStatement]:
    """Return the statements of a ``torch.cond``, whose sides take some names."""
    names = ", ".join(operands)
    lines = [
        function(f"_when_{name}({names})", [*side, *statements(f"return {result}")])
        for name, side, result in zip(("true", "false"), sides, results, strict=True)
    ]
    values = f"({names},)" if operands else "()"
    return [*lines, *statements(f"{head}torch.cond({test}, _when_true, _when_false, {values})")]


def refuse(nodes: Sequence[cst.BaseStatement]) -> None:
    """Raise ``UnfitError`` if statements do what no side of an op can do."""
    if call := draws(nodes):
        raise UnfitError(f"`{call}` draws random numbers")
    bad = changing(nodes) or [node for node in walk(nodes) if m.matches(node, _LEAVES)]
    if bad:
        raise UnfitError(f"it holds `{code(bad[0])[:60]}`")


def _check(out: Sequence[str], sides: Sequence[Sequence[cst.BaseStatement]], place: Place) -> None:
    """Raise ``UnfitError`` for a result that would not be what it is without the op."""
    if not out:
        raise UnfitError("nothing that it sets is read later")
    changed, set_before = changed_after(place), before(place)
    for name in out:
        if name in changed:
            raise UnfitError(f"{name} is changed in place later, and would be a new tensor")
        if name not in set_before and not all(name in bound(place, side) for side in sides):
            raise UnfitError(f"{name} is set on one side only")


def _lists(nodes: Sequence[cst.BaseStatement]) -> set[str]:
    """Return the names that lines set to a list: its tensors are what an op takes and gives."""
    matcher = m.Assign([m.AssignTarget(m.Name())], value=m.List() | m.ListComp())
    lines = [
        cst.ensure_type(line, cst.Assign) for node in nodes for line in m.findall(node, matcher)
    ]
    return {code(line.targets[0].target) for line in lines}


def output_of(name: str, side: Sequence[cst.BaseStatement], lists: Collection[str] = ()) -> str:
    """Return an expression for a result that is no input of its op: cloned where it may be one."""
    if name in lists:
        return f"[_one.clone() for _one in {name}]"
    set_to = [
        statement.value
        for statement in map(only, side)
        if isinstance(statement, cst.Assign)
        and m.matches(statement.targets[-1].target, m.Name(name))
    ]
    return name if set_to and m.matches(set_to[-1], _FRESH) else f"{name}.clone()"


def _returns(side: Sequence[cst.BaseStatement]) -> bool:
    last = only(side[-1]) if side else None
    return isinstance(last, cst.Return) and last.value is not None


def returned(value: cst.BaseExpression | None) -> str:
    """Return the value of a ``return``, its names cloned: an op may not give an input."""
    parts = (
        [element.value for element in value.elements] if isinstance(value, cst.Tuple) else [value]
    )
    texts = [
        f"{code(part)}.clone()" if isinstance(part, cst.Name) else code(part)
        for part in parts
        if part is not None
    ]
    return f"({', '.join(texts)},)" if isinstance(value, cst.Tuple) else texts[0]
