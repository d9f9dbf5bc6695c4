"""Loops over the places that are not zero, such as the experts that a token chose."""

from __future__ import annotations

from typing import Final

import libcst as cst
from libcst import matchers as m

from pytest_graphbreak.repair.rewrite.parts import Replacement, Statement

_HITS: Final = m.Call(func=m.Attribute(attr=m.Name("nonzero")))
_SKIPS: Final = m.If(
    test=m.Comparison(
        left=m.Call(func=m.Attribute(attr=m.Name("numel")), args=[]),
        comparisons=[m.ComparisonTarget(m.Equal(), m.Integer("0"))],
    ),
    body=m.IndentedBlock(body=[m.SimpleStatementLine(body=[m.Continue()])]),
    orelse=None,
)
"""``if t.numel() == 0: continue``"""


def every_index(node: Statement) -> Replacement | None:
    """``for i in t.nonzero():`` goes over all indices, also those where ``t`` is zero.

    For those the loop selects nothing, and adds it; whether it does a run says.
    """
    if not isinstance(node, cst.FunctionDef):
        return None
    loops = _Loops()
    node.visit(loops)
    for hits, condition in loops.conditions.items():
        row = loops.rows.get(hits)
        if row is not None and loops.uses[hits] == 2:  # where it is made, and the loop
            changed = node.visit(_EveryIndex(hits, row, condition))
            return changed if isinstance(changed, cst.FunctionDef) else None
    return None


class _Loops(cst.CSTVisitor):
    """The names that are the rows of a ``nonzero()``, and what the loop over them calls one."""

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
    """What a loop does with a row of ``nonzero()``, done with a number."""

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
        """Nothing is left out any more."""
        return cst.RemoveFromParent() if m.matches(original_node, _SKIPS) else updated_node
