"""What several rewriters use: their types, text of nodes, and reads of tensors."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst
from libcst import matchers as m

Statement = cst.SimpleStatementLine | cst.If | cst.While | cst.For | cst.FunctionDef
Replacement = cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement] | cst.RemovalSentinel
Rewriter = Callable[["Statement"], "Replacement | None"]


def text_of(node: cst.CSTNode) -> str:
    return cst.Module(body=[]).code_for_node(node)


def parsed(source: str) -> cst.BaseStatement:
    return cst.parse_statement(source)


_READ = m.OneOf(
    m.Call(func=m.Attribute(attr=m.Name("item")), args=[]),
    m.Call(func=m.Name("bool"), args=[m.Arg()]),
    m.Call(func=m.Name("float"), args=[m.Arg()]),
    m.Call(func=m.Name("int"), args=[m.Arg()]),
)


class KeepTensors(cst.CSTTransformer):
    """``t.item()``, ``float(t)``, ``bool(t)`` -> ``t``."""

    def __init__(self) -> None:
        super().__init__()
        self.done = False

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        if m.matches(updated_node, m.Call(func=m.Attribute(attr=m.Name("item")), args=[])):
            self.done = True
            assert isinstance(updated_node.func, cst.Attribute)
            return in_brackets(updated_node.func.value)
        if m.matches(updated_node, _READ) and not m.matches(
            updated_node.args[0].value, m.OneOf(m.SimpleString(), m.Integer(), m.Float())
        ):
            self.done = True
            return in_brackets(updated_node.args[0].value)
        return updated_node


def in_brackets(node: cst.BaseExpression) -> cst.BaseExpression:
    simple = isinstance(node, cst.Name | cst.Call | cst.Attribute | cst.Subscript)
    if simple or node.lpar:
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
