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

from collections.abc import Iterator, Sequence
from typing import Final

import libcst as cst
from libcst import matchers as m

from pytest_graphbreak.model.record import Break
from pytest_graphbreak.repair.patch import Rewrite, SourcePatch, UnfitError
from pytest_graphbreak.repair.rewrite.conditions import condition
from pytest_graphbreak.repair.rewrite.names import after, before, bound_names, changed_after, read
from pytest_graphbreak.repair.rewrite.operators import cond_of, output_of, refuse, return_value
from pytest_graphbreak.repair.rewrite.reasons import may_branch
from pytest_graphbreak.repair.rewrite.tree import Place, body, code, only, rewriting
from pytest_graphbreak.repair.trial import Trial

Sides = Sequence[Sequence[cst.BaseStatement]]
"""The statements of a branch where its test is true, and where it is not."""


def propose(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    here = item.where
    if may_branch(item) and (here.code.startswith("if ") or " if " in here.code):
        yield SourcePatch("the branch became torch.cond", (Rewrite(CHANGE, here),))


def to_cond(place: Place) -> Sequence[cst.BaseStatement]:
    """Return the statements that choose by ``torch.cond``. Raises ``UnfitError``."""
    test, sides = _branch(place)
    text = condition(test, place)
    ends = [_returns(side) for side in sides]
    bodies = [side[:-1] if end else side for side, end in zip(sides, ends, strict=True)]
    refuse([*bodies[0], *bodies[1]])
    if any(ends) and not all(ends):
        raise UnfitError("one side returns, and nothing follows the other")
    names, start = bound_names(place, [place.node]), before(place)
    if all(ends):
        values = [cst.ensure_type(only(side[-1]), cst.Return).value for side in sides]
        head, out, results = "return ", [], [return_value(value) for value in values]
    else:
        later, lists = {*after(place)}, _lists([*sides[0], *sides[1]])
        out = [name for name in names if name in later]
        _check(out, sides, place)
        outputs = [[output_of(name, side, lists) for name in out] for side in sides]
        results = [f"({', '.join(texts)},)" for texts in outputs]
        head = f"({', '.join(out)},) = "
    needed = {*read(place, [place.node]), *out}
    operands = [name for name in names if name in start and name in needed]
    return cond_of(text, bodies, results, operands, head)


CHANGE: Final = rewriting(to_cond)


def _branch(place: Place) -> tuple[cst.BaseExpression, Sides]:
    """Return the test and the sides of an ``if``, or of ``x = a if test else b``."""
    node = place.node
    if not isinstance(node, cst.If):
        statement = only(node)
        if not isinstance(statement, cst.Assign) or not isinstance(statement.value, cst.IfExp):
            raise UnfitError("it is no branch")
        choice = statement.value
        lines = [statement.with_changes(value=value) for value in (choice.body, choice.orelse)]
        return choice.test, [[cst.SimpleStatementLine([line])] for line in lines]
    if isinstance(node.orelse, cst.If):
        raise UnfitError("it has an `elif`")
    true = body(node.body)
    if node.orelse is None:  # what follows a `return` is the other side
        return node.test, [true, place.following[:1] if _returns(true) else []]
    return node.test, [true, body(node.orelse.body)]


def _check(out: Sequence[str], sides: Sequence[Sequence[cst.BaseStatement]], place: Place) -> None:
    """Raise ``UnfitError`` for a result that would not be what it is without the op."""
    if not out:
        raise UnfitError("nothing that it sets is read later")
    changed, start = changed_after(place), before(place)
    for name in out:
        if name in changed:
            raise UnfitError(f"{name} is changed in place later, and would be a new tensor")
        if name not in start and not all(name in bound_names(place, side) for side in sides):
            raise UnfitError(f"{name} is set on one side only")


def _lists(nodes: Sequence[cst.BaseStatement]) -> set[str]:
    """Return the names that lines set to a list: its tensors are what an op takes and gives."""
    matcher = m.Assign([m.AssignTarget(m.Name())], value=m.List() | m.ListComp())
    lines = [
        cst.ensure_type(line, cst.Assign) for node in nodes for line in m.findall(node, matcher)
    ]
    return {code(line.targets[0].target) for line in lines}


def _returns(side: Sequence[cst.BaseStatement]) -> bool:
    last = only(side[-1]) if side else None
    return isinstance(last, cst.Return) and last.value is not None
