"""Rewrites loops over the rows of ``nonzero()`` as loops over all indices, as in experts.

A loop that does nothing for an index that selects nothing may as well run for it.
"""

from __future__ import annotations

import ast
import re
import textwrap
from typing import Final

import libcst as cst
from libcst import matchers as m

from pytest_graphbreak.repair.rewrite.line import Replacement, Statement

_HITS: Final = m.Call(func=m.Attribute(attr=m.Name("nonzero")))
_SKIPS: Final = m.If(
    test=m.Comparison(
        left=m.Call(func=m.Attribute(attr=m.Name("numel")), args=[]),
        comparisons=[m.ComparisonTarget(m.Equal(), m.Integer("0"))],
    ),
    body=m.IndentedBlock(body=[m.SimpleStatementLine(body=[m.Continue()])]),
    orelse=None,
)
"""Matches ``if t.numel() == 0: continue``."""


def every_index(node: Statement) -> Replacement | None:
    """Rewrite ``for i in t.nonzero():`` to loop over all indices, even those where ``t`` is zero.

    For those the loop selects nothing and adds it. A loop that does anything else is left alone.
    """
    if not isinstance(node, cst.FunctionDef) or not _only_selects(node):
        return None
    loops = _Loops()
    node.visit(loops)
    for hits, condition in loops.conditions.items():
        row = loops.rows.get(hits)
        if row is not None and loops.uses[hits] == 2:  # the assignment and the loop
            changed = node.visit(_EveryIndex(hits, row, condition))
            return changed if isinstance(changed, cst.FunctionDef) else None
    return None


def _only_selects(node: cst.FunctionDef) -> bool:
    """Return whether loops over ``nonzero()`` do nothing for an index that selects nothing."""
    function = ast.parse(textwrap.dedent(cst.Module([node]).code)).body[0]
    hits = {
        one.targets[0].id: one.value.func.value
        for one in ast.walk(function)
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name)
        if isinstance(one.value, ast.Call) and isinstance(one.value.func, ast.Attribute)
        if one.value.func.attr == "nonzero"
    }
    loops = [one for one in ast.walk(function) if isinstance(one, ast.For)]
    over = [(one, hits[name]) for one in loops if (name := ast.unparse(one.iter)) in hits]
    return bool(over) and all(_selects(*one, function) for one in over)


def _selects(loop: ast.For, condition: ast.expr, function: ast.stmt) -> bool:
    """Return whether a loop only adds what ``torch.where(mask[index])`` selects.

    ``condition`` is true exactly where the mask has something to select.
    """
    inside = set(ast.walk(loop))
    rest = [one for one in ast.walk(function) if one not in inside]
    taken = {one.id for one in rest if isinstance(one, ast.Name)}
    taken |= {one.arg for one in rest if isinstance(one, ast.arg)}
    row = ast.unparse(loop.target)
    index = "|".join([row, *_numbers(loop, row)])
    selected: set[str] = set()
    for one in ast.walk(loop):
        if isinstance(one, ast.Assign) and (
            found := re.match(
                rf"torch\.where\((.+)\[(?:{index})\](\.squeeze\(0\))?\)$", ast.unparse(one.value)
            )
        ):
            if not _has_any(ast.unparse(condition), found[1], ast.unparse(function)):
                return False
            selected |= {name.id for name in ast.walk(one.targets[0]) if isinstance(name, ast.Name)}
    fresh: set[str] = set()
    return bool(selected) and all(_adds(one, selected, taken - {row}, fresh) for one in loop.body)


def _numbers(loop: ast.For, row: str) -> list[str]:
    """Return the names that a loop sets once, to the number of its row."""
    stores = [one.id for one in ast.walk(loop) if isinstance(one, ast.Name) and _stored(one)]
    return [
        one.targets[0].id
        for one in loop.body
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name)
        if ast.unparse(one.value) in (f"{row}.item()", f"int({row}.item())")
        if stores.count(one.targets[0].id) == 1
    ]


def _stored(name: ast.Name) -> bool:
    return not isinstance(name.ctx, ast.Load)


def _has_any(condition: str, mask: str, text: str) -> bool:
    """Return whether a condition says that a mask has something: no sum of negative numbers."""
    name = re.escape(mask)
    if re.fullmatch(rf"{name}\.any\([^()]*(\([^()]*\))?\)", condition):
        return True
    total = rf"{name}\.sum\([^()]*(\([^()]*\))?\)"
    more = re.fullmatch(rf"torch\.greater\({total}, 0\)|{total} > 0", condition)
    return bool(more and re.search(rf"\b{name} = [\w.]*one_hot\(", text))


def _adds(node: ast.stmt, selected: set[str], taken: set[str], fresh: set[str]) -> bool:
    """Return whether a statement sets names of its own, or adds at selected places.

    ``fresh`` are names of results that nothing else holds: they may be changed in place.
    """
    if isinstance(node, ast.If):
        sides = [(node.body, set(fresh)), (node.orelse, set(fresh))]
        adds = all(_adds(one, selected, taken, own) for body, own in sides for one in body)
        fresh.intersection_update(*(own for _, own in sides))
        return adds
    if isinstance(node, ast.Assign):
        names = [one for target in node.targets for one in ast.walk(target)]
        if all(isinstance(one, ast.Name | ast.Tuple | ast.Store) for one in names):
            own = {one.id for one in names if isinstance(one, ast.Name)}
            fresh -= own
            fresh |= own if isinstance(node.value, ast.BinOp) else set()
            return not own & taken
        return all(_at(one, selected) for one in node.targets)
    if isinstance(node, ast.AugAssign):
        changes = isinstance(node.target, ast.Name) and node.target.id in fresh
        return changes or _at(node.target, selected)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        function, given = node.value.func, node.value.args
        adds = isinstance(function, ast.Attribute) and function.attr == "index_add_"
        return adds and len(given) == 3 and ast.unparse(given[1]) in selected
    return isinstance(node, ast.Continue | ast.Pass)


def _at(target: ast.expr, selected: set[str]) -> bool:
    """Return whether a target is ``x[place]`` with a selected place."""
    return isinstance(target, ast.Subscript) and ast.unparse(target.slice) in selected


class _Loops(cst.CSTVisitor):
    """Collects the names for the rows of a ``nonzero()``, and for one row in the loop over them."""

    def __init__(self) -> None:
        super().__init__()
        self.conditions: dict[str, cst.BaseExpression] = {}
        self.rows: dict[str, str] = {}
        self.uses: dict[str, int] = {}

    def visit_Assign(self, node: cst.Assign) -> None:
        target = node.targets[0].target
        if len(node.targets) != 1 or not isinstance(target, cst.Name):
            return
        if m.matches(node.value, _HITS) and not m.matches(
            node.value, m.Call(func=m.Attribute(value=m.Name("torch")))
        ):
            assert isinstance(node.value, cst.Call)
            assert isinstance(node.value.func, cst.Attribute)
            self.conditions[target.value] = node.value.func.value

    def visit_For(self, node: cst.For) -> None:
        if isinstance(node.iter, cst.Name) and isinstance(node.target, cst.Name):
            self.rows[node.iter.value] = node.target.value

    def visit_Name(self, node: cst.Name) -> None:
        self.uses[node.value] = self.uses.get(node.value, 0) + 1


class _EveryIndex(cst.CSTTransformer):
    """Replaces the uses of a row of ``nonzero()`` in a loop by uses of a number."""

    def __init__(self, hits: str, row: str, condition: cst.BaseExpression) -> None:
        super().__init__()
        self._hits, self._condition = hits, condition
        name = m.Name(row)
        at_row = m.Subscript(slice=[m.SubscriptElement(m.Index(name))])
        self._first = m.Subscript(value=name, slice=[m.SubscriptElement(m.Index(m.Integer("0")))])
        self._plain = m.OneOf(  # row.item(), x[row].squeeze(0)
            m.Call(func=m.Attribute(value=name, attr=m.Name("item")), args=[]),
            m.Call(
                func=m.Attribute(value=at_row, attr=m.Name("squeeze")),
                args=[m.Arg(m.Integer("0"))],
            ),
        )

    def leave_Assign(self, original_node: cst.Assign, updated_node: cst.Assign) -> cst.Assign:
        if not m.matches(original_node.targets[0].target, m.Name(self._hits)):
            return updated_node
        length = cst.Call(cst.Name("len"), [cst.Arg(self._condition)])
        return updated_node.with_changes(value=cst.Call(cst.Name("range"), [cst.Arg(length)]))

    def leave_Subscript(
        self, original_node: cst.Subscript, updated_node: cst.Subscript
    ) -> cst.BaseExpression:
        return updated_node.value if m.matches(original_node, self._first) else updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        func = updated_node.func
        if isinstance(func, cst.Attribute) and m.matches(original_node, self._plain):
            return func.value
        return updated_node

    def leave_If(self, original_node: cst.If, updated_node: cst.If) -> cst.If | cst.RemovalSentinel:
        """Remove the check for an empty selection, so that no index is skipped."""
        return cst.RemoveFromParent() if m.matches(original_node, _SKIPS) else updated_node
