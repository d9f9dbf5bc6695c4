"""Other statements, and whole functions: calls that go, numbers, decorators."""

from __future__ import annotations

import libcst as cst
from libcst import matchers as m

from pytest_graphbreak.repair.rewrite.parts import KeepTensors, Replacement, Rewriter, Statement


def keep_tensor(node: Statement) -> Replacement | None:
    """``y * t.item()`` -> ``y * t``, in all of one statement."""
    if not isinstance(node, cst.SimpleStatementLine):
        return None
    keep = KeepTensors()
    changed = node.visit(keep)
    return changed if keep.done and isinstance(changed, cst.BaseStatement) else None


def only_eager(node: Statement) -> Replacement | None:
    """An expression statement -> the same under ``if not torch.compiler.is_compiling():``."""
    if not isinstance(node, cst.SimpleStatementLine) or len(node.body) != 1:
        return None
    if not isinstance(node.body[0], cst.Expr) or not isinstance(node.body[0].value, cst.Call):
        return None
    return cst.If(
        test=cst.parse_expression("not torch.compiler.is_compiling()"),
        body=cst.IndentedBlock(body=[node.with_changes(leading_lines=[])]),
        leading_lines=node.leading_lines,
    )


class _Numbers(cst.CSTTransformer):
    """``torch.tensor(3.0)`` -> ``3.0``."""

    def __init__(self) -> None:
        super().__init__()
        self.done = False

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        made = m.Call(
            func=m.Attribute(value=m.Name("torch"), attr=m.Name("tensor")),
            args=[m.Arg(keyword=None, value=m.OneOf(m.Integer(), m.Float()))],
        )
        if not m.matches(updated_node, made):
            return updated_node
        self.done = True
        return updated_node.args[0].value


def tensor_to_number(node: Statement) -> Replacement | None:
    """``y * torch.tensor(3.0)`` -> ``y * 3.0``, in all of one statement."""
    if not isinstance(node, cst.SimpleStatementLine):
        return None
    numbers = _Numbers()
    changed = node.visit(numbers)
    return changed if numbers.done and isinstance(changed, cst.BaseStatement) else None


def drop_graph_break(node: Statement) -> Replacement | None:
    """``torch._dynamo.graph_break()`` -> ``pass``."""
    if not isinstance(node, cst.SimpleStatementLine) or len(node.body) != 1:
        return None
    call = m.Expr(
        m.Call(func=m.OneOf(m.Attribute(attr=m.Name("graph_break")), m.Name("graph_break")))
    )
    if not m.matches(node.body[0], call):
        return None
    return node.with_changes(body=[cst.Pass()])


_DISABLE = m.Decorator(
    m.OneOf(
        m.Attribute(attr=m.Name("disable")),
        m.Name("disable"),
        m.Call(func=m.Attribute(attr=m.Name("disable"))),
        m.Call(func=m.Name("disable")),
    )
)


def enable(node: Statement) -> Replacement | None:
    """A function without its ``@torch.compiler.disable``."""
    if not isinstance(node, cst.FunctionDef):
        return None
    kept = [one for one in node.decorators if not m.matches(one, _DISABLE)]
    return node.with_changes(decorators=kept) if len(kept) < len(node.decorators) else None


class _GroupKeys(cst.CSTTransformer):
    """``itertools.groupby(x, f)`` -> ``itertools.groupby(x, key=f)``."""

    def __init__(self) -> None:
        super().__init__()
        self.done = False

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        name = m.OneOf(m.Name("groupby"), m.Attribute(attr=m.Name("groupby")))
        plain = m.Arg(keyword=None, star="")
        called = m.matches(updated_node.func, name)
        if not called or not m.matches(updated_node, m.Call(args=[plain, plain])):
            return updated_node
        self.done = True
        first, second = updated_node.args
        tight = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
        named = second.with_changes(keyword=cst.Name("key"), equal=tight)
        return updated_node.with_changes(args=[first, named])


def group_key(node: Statement) -> Replacement | None:
    """A function whose ``itertools.groupby`` is given its key by name: Dynamo knows no other."""
    if not isinstance(node, cst.FunctionDef):
        return None
    keys = _GroupKeys()
    changed = node.visit(keys)
    return changed if keys.done and isinstance(changed, cst.FunctionDef) else None


def decorate(name: str) -> Rewriter:
    """A rewriter that puts a decorator on a function, before those that it has."""

    def decorated(node: Statement) -> Replacement | None:
        if not isinstance(node, cst.FunctionDef):
            return None
        first = cst.Decorator(cst.parse_expression(name))
        return node.with_changes(decorators=[first, *node.decorators])

    return decorated
