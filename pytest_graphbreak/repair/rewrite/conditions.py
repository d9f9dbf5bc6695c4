"""Statements that hang on a tensor's value, as ops: if, while, a conditional, a check."""

from __future__ import annotations

import libcst as cst
from libcst import matchers as m

from pytest_graphbreak.repair.rewrite.line import (
    Replacement,
    Statement,
    kept_tensors,
    parsed,
    replaced,
    text_of,
)
from pytest_graphbreak.repair.source import lines


def _tensor(test: cst.BaseExpression) -> str | None:
    """The condition as an expression of a bool tensor without dimensions."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        inner = _tensor(test.expression)
        return None if inner is None else f"torch.logical_not({inner})"
    if isinstance(test, cst.BooleanOperation):
        left, right = _tensor(test.left), _tensor(test.right)
        if left is None or right is None:
            return None
        name = "logical_and" if isinstance(test.operator, cst.And) else "logical_or"
        return f"torch.{name}({left}, {right})"
    if m.matches(test, m.Comparison()) and len(getattr(test, "comparisons", ())) != 1:
        return None
    return f"torch.as_tensor({text_of(_bare(kept_tensors(test) or test))}).reshape(()).bool()"


def _bare(node: cst.BaseExpression) -> cst.BaseExpression:
    return node.with_changes(lpar=[], rpar=[])


def _only(body: cst.BaseSuite) -> cst.BaseSmallStatement | None:
    """The one small statement of a suite, or None."""
    if isinstance(body, cst.SimpleStatementSuite):
        return body.body[0] if len(body.body) == 1 else None
    if isinstance(body, cst.IndentedBlock) and len(body.body) == 1:
        line = body.body[0]
        if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1:
            return line.body[0]
    return None


def _assigned(statement: cst.BaseSmallStatement | None) -> tuple[str, str] | None:
    """Target and value of ``name = value`` or ``name += value``; the target as text."""
    if isinstance(statement, cst.Assign) and len(statement.targets) == 1:
        target = statement.targets[0].target
        if isinstance(target, cst.Name):
            return target.value, f"({text_of(statement.value)})"
    if isinstance(statement, cst.AugAssign) and isinstance(statement.target, cst.Name):
        sign = text_of(statement.operator).strip().removesuffix("=")
        name = statement.target.value
        return name, f"({name} {sign} ({text_of(statement.value)}))"
    return None


def _else(node: cst.If) -> cst.BaseSuite | None:
    return node.orelse.body if isinstance(node.orelse, cst.Else) else None


def branch_to_where(node: Statement) -> Replacement | None:
    """``if t: x = a`` (with or without ``else: x = b``) -> ``x = torch.where(t, a, b)``."""
    if isinstance(node, cst.SimpleStatementLine):
        return _conditional(node)
    if not isinstance(node, cst.If) or isinstance(node.orelse, cst.If):
        return None
    test = _tensor(node.test)
    if test is None:
        return None
    first, other = _only(node.body), _else(node)
    second = _only(other) if other is not None else None
    if isinstance(first, cst.Return) and isinstance(second, cst.Return):
        if first.value is None or second.value is None:
            return None
        result = parsed(
            f"return torch.where({test}, {text_of(first.value)}, {text_of(second.value)})\n"
        )
        return result.with_changes(leading_lines=node.leading_lines)
    then = _assigned(first)
    if then is None:
        return None
    name, value = then
    otherwise = name
    if other is not None:
        found = _assigned(second)
        if found is None or found[0] != name:
            return None
        otherwise = found[1]
    line = parsed(f"{name} = torch.where({test}, {value}, {otherwise})\n")
    return line.with_changes(leading_lines=node.leading_lines)


def _conditional(node: cst.SimpleStatementLine) -> Replacement | None:
    """``a if t else b`` -> ``torch.where(t, a, b)``."""

    def selected(choice: cst.CSTNode) -> cst.CSTNode:
        found = cst.ensure_type(choice, cst.IfExp)
        test = _tensor(found.test)
        if test is None:
            return found
        return cst.parse_expression(
            f"torch.where({test}, {text_of(found.body)}, {text_of(found.orelse)})"
        )

    changed = replaced(node, m.IfExp(), selected)
    return None if changed is None or changed.deep_equals(node) else changed


class _Names(cst.CSTVisitor):
    """Names that a block binds, in order, and whether it does what a branch cannot."""

    def __init__(self) -> None:
        super().__init__()
        self.bound: list[str] = []
        self.plain = True

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        self._bind(node.target)

    def visit_AugAssign(self, node: cst.AugAssign) -> None:
        self._bind(node.target)

    def _bind(self, target: cst.BaseExpression) -> None:
        if isinstance(target, cst.Tuple | cst.List):
            for element in target.elements:
                self._bind(element.value)
        elif isinstance(target, cst.Name):
            if target.value not in self.bound:
                self.bound.append(target.value)
        else:
            self.plain = False

    def _not_plain(self, node: cst.CSTNode) -> None:
        self.plain = False

    visit_Return = visit_Break = visit_Continue = visit_Raise = visit_Yield = _not_plain
    visit_Try = visit_With = visit_Global = visit_Nonlocal = visit_Del = _not_plain
    visit_NamedExpr = visit_Await = visit_FunctionDef = visit_AnnAssign = visit_For = _not_plain


def _bound(*suites: cst.BaseSuite | None) -> list[str] | None:
    """What the suites bind, or None where they do more than bind names."""
    names = _Names()
    for suite in suites:
        if suite is not None:
            suite.visit(names)
    return names.bound if names.plain and names.bound else None


def _indented(suite: cst.BaseSuite, by: str = "    ") -> str:
    if isinstance(suite, cst.IndentedBlock):
        text = "".join(text_of(line) for line in suite.body)
    else:
        text = text_of(suite).strip() + "\n"
    return "".join(f"{by}{line}" if line.strip() else line for line in lines(text))


def _returned(suite: cst.BaseSuite) -> str | None:
    """A suite that ends in its only ``return``, as the body of a function."""
    if not isinstance(suite, cst.IndentedBlock) or not suite.body:
        return None
    *before, last = suite.body
    if not (
        isinstance(last, cst.SimpleStatementLine)
        and len(last.body) == 1
        and isinstance(last.body[0], cst.Return)
        and last.body[0].value is not None
    ):
        return None
    names = _Names()
    for line in before:
        line.visit(names)
    return _indented(suite) if names.plain else None


def branch_to_cond(node: Statement) -> Replacement | None:
    """``if t:`` with blocks that bind names, or that both return, -> ``torch.cond``."""
    if not isinstance(node, cst.If) or isinstance(node.orelse, cst.If):
        return None
    test, other = _tensor(node.test), _else(node)
    if test is None:
        return None
    if other is not None:
        first, second = _returned(node.body), _returned(other)
        if first is not None and second is not None:
            return _several(
                f"def _when_true():\n{first}\n"
                f"def _when_false():\n{second}\n"
                f"return torch.cond({test}, _when_true, _when_false, ())\n",
                node,
            )
    names = _bound(node.body, other)
    if names is None:
        return None
    given = ", ".join(names)
    pack = f"({given},)"
    kept = "".join(f"    {name} = {name}.clone()\n" for name in names)
    second = _indented(other) if other is not None else ""
    # An output of cond may not be an input of it as it is: clone what stays.
    return _several(
        f"def _when_true({given}):\n{_indented(node.body)}    return {pack}\n"
        f"def _when_false({given}):\n{second or kept}    return {pack}\n"
        f"{pack} = torch.cond({test}, _when_true, _when_false, {pack})\n",
        node,
    )


def loop_to_while_loop(node: Statement) -> Replacement | None:
    """``while t:`` with a body that binds tensors -> ``torch.while_loop``."""
    if not isinstance(node, cst.While) or node.orelse is not None:
        return None
    test, names = _tensor(node.test), _bound(node.body)
    if test is None or names is None:
        return None
    given = ", ".join(names)
    return _several(
        "from torch._higher_order_ops.while_loop import while_loop as _while_loop\n"
        f"def _goes_on({given}):\n    return {test}\n"
        f"def _body({given}):\n{_indented(node.body)}"
        f"    return ({', '.join(f'{name}.clone()' for name in names)},)\n"
        f"({given},) = _while_loop(_goes_on, _body, ({given},))\n",
        node,
    )


def _several(source: str, node: cst.If | cst.While) -> Replacement | None:
    try:
        body = cst.parse_module(source).body
    except cst.ParserSyntaxError:
        return None
    first = body[0].with_changes(leading_lines=node.leading_lines)
    return cst.FlattenSentinel([first, *body[1:]])


def raise_to_check(node: Statement) -> Replacement | None:
    """``if t: raise E(text)`` -> ``torch._assert_async(not t, text)``."""
    if not isinstance(node, cst.If) or node.orelse is not None:
        return None
    only, test = _only(node.body), _tensor(node.test)
    if not isinstance(only, cst.Raise) or only.exc is None or test is None:
        return None
    words = '"a check failed"'
    call = only.exc
    if (
        isinstance(call, cst.Call)
        and call.args
        and isinstance(call.args[0].value, cst.SimpleString)
    ):
        words = text_of(call.args[0].value)
    line = parsed(f"torch._assert_async(torch.logical_not({test}), {words})\n")
    return line.with_changes(leading_lines=node.leading_lines)
