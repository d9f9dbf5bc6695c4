"""Numbers that are read from tensors, as constants of the graph."""

from __future__ import annotations

from typing import Final

import libcst as cst
from libcst import matchers as m

from pytest_graphbreak.repair.rewrite.parts import Replacement, Statement

_TORCH: Final = m.Name("torch")
_READ: Final = m.Call(func=m.Attribute(attr=m.OneOf(m.Name("tolist"), m.Name("item"))), args=[])
_REDUCED: Final = m.Call(
    func=m.Attribute(attr=m.OneOf(m.Name("sum"), m.Name("max"), m.Name("min"))), args=[]
)
_SIZED: Final = m.Call(
    func=m.Attribute(
        value=_TORCH,
        attr=m.OneOf(m.Name("arange"), m.Name("zeros"), m.Name("ones"), m.Name("empty")),
    )
)
_REPEATED: Final = m.Call(func=m.Attribute(attr=m.Name("repeat_interleave")))


def numbers(value: cst.BaseExpression) -> cst.Call:
    """``t`` -> ``torch._graphbreak_numbers(t)``."""
    function = cst.parse_expression("torch._graphbreak_numbers")
    return cst.Call(func=function, args=[cst.Arg(value)])


class _Constants(cst.CSTTransformer):
    """``t.tolist()``, ``torch.arange(t.sum())``, ``torch.repeat_interleave(x, t)``."""

    def __init__(self) -> None:
        super().__init__()
        self.done = False

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        if m.matches(updated_node, _READ):
            assert isinstance(updated_node.func, cst.Attribute)
            value = updated_node.func.value
            if updated_node.func.attr.value == "item":  # of one number in any number of brackets
                value = cst.Call(
                    func=cst.Attribute(value, cst.Name("reshape")),
                    args=[cst.Arg(cst.Tuple(elements=[]))],
                )
            self.done = True
            return numbers(value)
        if m.matches(updated_node, _SIZED):
            return self._sized(updated_node)
        if m.matches(updated_node, _REPEATED):
            return self._repeated(updated_node)
        return updated_node

    def _sized(self, node: cst.Call) -> cst.Call:
        args = []
        for arg in node.args:
            if arg.keyword is None and m.matches(arg.value, _REDUCED):
                self.done = True
                arg = arg.with_changes(value=numbers(arg.value))
            args.append(arg)
        return node.with_changes(args=args)

    def _repeated(self, node: cst.Call) -> cst.Call:
        """With the size of the result, which hangs on nothing else."""
        named = {arg.keyword.value for arg in node.args if arg.keyword is not None}
        place = 1 if m.matches(node.func, m.Attribute(value=_TORCH)) else 0
        plain = [arg for arg in node.args if arg.keyword is None]
        if "output_size" in named or len(plain) <= place:
            return node
        repeats = plain[place].value
        if isinstance(repeats, cst.Integer):
            return node
        self.done = True
        total = cst.Call(func=cst.Attribute(_bracketed(repeats), cst.Name("sum")))
        size = cst.Arg(numbers(total), keyword=cst.Name("output_size"), equal=_TIGHT)
        last = node.args[-1].with_changes(comma=cst.Comma(cst.SimpleWhitespace(""), _SPACE))
        return node.with_changes(args=[*node.args[:-1], last, size])


_SPACE: Final = cst.SimpleWhitespace(" ")
_TIGHT: Final = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))


def _bracketed(node: cst.BaseExpression) -> cst.BaseExpression:
    if isinstance(node, cst.Name | cst.Call | cst.Attribute | cst.Subscript) or node.lpar:
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def _condition(node: cst.BaseExpression) -> cst.BaseExpression:
    """Each part of a condition that may be a tensor, so that ``and`` and ``not`` read none."""
    if isinstance(node, cst.BooleanOperation):
        return node.with_changes(left=_condition(node.left), right=_condition(node.right))
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
        return node.with_changes(expression=_condition(node.expression))
    known = m.OneOf(m.Comparison(comparisons=[m.ComparisonTarget(operator=m.Is() | m.IsNot())]))
    return node if m.matches(node, known) else numbers(node)


def to_constants(node: Statement) -> Replacement | None:
    """The numbers that a statement, or the head of one, reads; a condition where it reads none."""
    change = _Constants()
    if isinstance(node, cst.SimpleStatementLine):
        changed = node.visit(change)
        return changed if change.done and isinstance(changed, cst.BaseStatement) else None
    if isinstance(node, cst.For):
        iterated = node.iter.visit(change)
        assert isinstance(iterated, cst.BaseExpression)
        return node.with_changes(iter=iterated) if change.done else None
    if isinstance(node, cst.If | cst.While):
        test = node.test.visit(change)
        assert isinstance(test, cst.BaseExpression)
        if not change.done:
            test = _condition(node.test)
        return node.with_changes(test=test)
    return None
