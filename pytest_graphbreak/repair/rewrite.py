"""Source rewrites at one line, by libcst: everything else in the file stays as it is.

A rewriter gets the statement (or the ``def``) that holds the line, and returns
what stands there instead, or None where the form is not one that it knows. It
is never guessed whether the result computes the same: a run proves it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import libcst as cst
from libcst import matchers as m
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from pytest_graphbreak.record import Frame

Statement = cst.SimpleStatementLine | cst.If | cst.While | cst.FunctionDef
Replacement = cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement] | cst.RemovalSentinel
Rewriter = Callable[["Statement"], "Replacement | None"]


def apply(source: str, kind: str, where: Frame) -> str | None:
    """The source with the line rewritten, or None where the rewriter does not apply.

    All lines of the function that read like ``where.code`` are changed alike:
    for the record they are one place.
    """
    try:
        wrapper = MetadataWrapper(cst.parse_module(source))
    except (cst.ParserSyntaxError, RecursionError):
        return None
    finder = _Rewriting(kind, where, source.splitlines())
    changed = wrapper.visit(finder)
    return changed.code if finder.done else None


class _Rewriting(cst.CSTTransformer):
    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, kind: str, where: Frame, lines: Sequence[str]) -> None:
        super().__init__()
        self.done = False
        self._rewriter = REWRITERS[kind]
        self._whole = kind in WHOLE
        self._function = where.function
        code = " ".join(where.code.split())
        self._hits = {
            number for number, line in enumerate(lines, 1) if " ".join(line.split()) == code
        }
        self._stack: list[str] = []

    @property
    def _name(self) -> str:
        """The qualified name of the function that is being visited, as Python writes it."""
        return ".".join(self._stack).removesuffix(".<locals>")

    @property
    def _inside(self) -> bool:
        return self._function in ("", "<module>", self._name)

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self._stack.append(node.name.value)

    def leave_ClassDef(
        self, original_node: cst.ClassDef, updated_node: cst.ClassDef
    ) -> cst.ClassDef:
        self._stack.pop()
        return updated_node

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self._stack += [node.name.value, "<locals>"]

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> Replacement | cst.FunctionDef:
        hit = self._inside and self._whole
        del self._stack[-2:]
        return self._change(updated_node) if hit else updated_node

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> Replacement | cst.SimpleStatementLine:
        if self._inside and not self._whole and self._hit(self._range(original_node)):
            return self._change(updated_node)
        return updated_node

    def leave_If(self, original_node: cst.If, updated_node: cst.If) -> Replacement | cst.If:
        if self._inside and not self._whole and self._hit_header(original_node, original_node.body):
            return self._change(updated_node)
        return updated_node

    def leave_While(
        self, original_node: cst.While, updated_node: cst.While
    ) -> Replacement | cst.While:
        if self._inside and not self._whole and self._hit_header(original_node, original_node.body):
            return self._change(updated_node)
        return updated_node

    def _range(self, node: cst.CSTNode) -> CodeRange:
        found: CodeRange = self.get_metadata(PositionProvider, node)
        return found

    def _hit(self, place: CodeRange) -> bool:
        return any(place.start.line <= line <= place.end.line for line in self._hits)

    def _hit_header(self, node: cst.CSTNode, body: cst.BaseSuite) -> bool:
        start, first = self._range(node).start.line, self._range(body).start.line
        return any(start <= line <= max(start, first - 1) for line in self._hits)

    def _change(self, node: Statement) -> Replacement:
        changed = self._rewriter(node)
        if changed is None:
            return node
        self.done = True
        return changed


def _text(node: cst.CSTNode) -> str:
    return cst.Module(body=[]).code_for_node(node)


def _statement(source: str) -> cst.BaseStatement:
    return cst.parse_statement(source)


# Conditions.

_READ = m.OneOf(
    m.Call(func=m.Attribute(attr=m.Name("item")), args=[]),
    m.Call(func=m.Name("bool"), args=[m.Arg()]),
    m.Call(func=m.Name("float"), args=[m.Arg()]),
    m.Call(func=m.Name("int"), args=[m.Arg()]),
)


class _KeepTensors(cst.CSTTransformer):
    """``t.item()``, ``float(t)``, ``bool(t)`` -> ``t``."""

    def __init__(self) -> None:
        super().__init__()
        self.done = False

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        if m.matches(updated_node, m.Call(func=m.Attribute(attr=m.Name("item")), args=[])):
            self.done = True
            assert isinstance(updated_node.func, cst.Attribute)
            return _in_brackets(updated_node.func.value)
        if m.matches(updated_node, _READ) and not m.matches(
            updated_node.args[0].value, m.OneOf(m.SimpleString(), m.Integer(), m.Float())
        ):
            self.done = True
            return _in_brackets(updated_node.args[0].value)
        return updated_node


def _in_brackets(node: cst.BaseExpression) -> cst.BaseExpression:
    simple = isinstance(node, cst.Name | cst.Call | cst.Attribute | cst.Subscript)
    if simple or node.lpar:
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


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
    kept = test.visit(_KeepTensors())
    assert isinstance(kept, cst.BaseExpression)
    return f"torch.as_tensor({_text(_bare(kept))}).reshape(()).bool()"


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
            return target.value, f"({_text(statement.value)})"
    if isinstance(statement, cst.AugAssign) and isinstance(statement.target, cst.Name):
        sign = _text(statement.operator).strip().removesuffix("=")
        name = statement.target.value
        return name, f"({name} {sign} ({_text(statement.value)}))"
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
        result = _statement(
            f"return torch.where({test}, {_text(first.value)}, {_text(second.value)})\n"
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
    line = _statement(f"{name} = torch.where({test}, {value}, {otherwise})\n")
    return line.with_changes(leading_lines=node.leading_lines)


class _Ternary(cst.CSTTransformer):
    """``a if t else b`` -> ``torch.where(t, a, b)``."""

    def __init__(self) -> None:
        super().__init__()
        self.done = False

    def leave_IfExp(self, original_node: cst.IfExp, updated_node: cst.IfExp) -> cst.BaseExpression:
        test = _tensor(updated_node.test)
        if test is None:
            return updated_node
        self.done = True
        return cst.parse_expression(
            f"torch.where({test}, {_text(updated_node.body)}, {_text(updated_node.orelse)})"
        )


def _conditional(node: cst.SimpleStatementLine) -> Replacement | None:
    ternary = _Ternary()
    changed = node.visit(ternary)
    return changed if ternary.done and isinstance(changed, cst.BaseStatement) else None


class _Names(cst.CSTVisitor):
    """Names that a block binds, in order, and whether it does what a branch can not."""

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
        text = "".join(_text(line) for line in suite.body)
    else:
        text = _text(suite).strip() + "\n"
    return "".join(f"{by}{line}" if line.strip() else line for line in text.splitlines(True))


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
        words = _text(call.args[0].value)
    line = _statement(f"torch._assert_async(torch.logical_not({test}), {words})\n")
    return line.with_changes(leading_lines=node.leading_lines)


# Other statements.


def keep_tensor(node: Statement) -> Replacement | None:
    """``y * t.item()`` -> ``y * t``, in all of one statement."""
    if not isinstance(node, cst.SimpleStatementLine):
        return None
    keep = _KeepTensors()
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


def leave_compiler(node: Statement) -> Replacement | None:
    """A function with ``@torch.compiler.disable`` on it."""
    if not isinstance(node, cst.FunctionDef):
        return None
    first = cst.Decorator(cst.parse_expression("torch.compiler.disable"))
    return node.with_changes(decorators=[first, *node.decorators])


REWRITERS: dict[str, Rewriter] = {
    "where": branch_to_where,
    "cond": branch_to_cond,
    "while_loop": loop_to_while_loop,
    "check": raise_to_check,
    "keep_tensor": keep_tensor,
    "number": tensor_to_number,
    "only_eager": only_eager,
    "drop_graph_break": drop_graph_break,
    "enable": enable,
    "leave_compiler": leave_compiler,
}


WHOLE = ("enable", "leave_compiler")
"""Rewriters of a whole function: the place names it, its line does not matter."""
