"""Finds the statement that holds a line, and replaces it by the result of a rewriter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final, TypeVar

import libcst as cst
from libcst import matchers as m
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.source import alike, lines

Block = cst.If | cst.While | cst.For
Statement = cst.SimpleStatementLine | Block | cst.FunctionDef
Replacement = cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement] | cst.RemovalSentinel
Rewriter = Callable[[Statement], Replacement | None]
Node = TypeVar("Node", bound=cst.CSTNode)


TIGHT: Final = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
"""The ``=`` of a keyword argument."""


def text_of(node: cst.CSTNode) -> str:
    return cst.Module(body=[]).code_for_node(node)


def parsed(source: str) -> cst.BaseStatement:
    return cst.parse_statement(source)


Change = Callable[[cst.CSTNode], cst.CSTNode]


def replaced(node: Node, matcher: m.BaseMatcherNode, change: Change) -> Node | None:
    """Return a node with all matches inside it changed, or None if nothing matches."""
    if not m.findall(node, matcher):
        return None
    changed = m.replace(node, matcher, lambda found, _: change(found))
    assert isinstance(changed, type(node))
    return changed


_ITEM: Final = m.Call(func=m.Attribute(attr=m.Name("item")), args=[])
_NUMBER: Final = m.OneOf(m.SimpleString(), m.Integer(), m.Float())
READ: Final = _ITEM | m.Call(
    func=m.OneOf(m.Name("bool"), m.Name("float"), m.Name("int")),
    args=[m.Arg(m.DoesNotMatch(_NUMBER))],
)


def kept_tensors(node: Node, method: str = "") -> Node | None:
    """Replace ``t.item()``, ``float(t)`` and ``bool(t)`` by ``t``; return None if there is none.

    If ``method`` is given, replace them by a call of this method of ``t``.
    """

    def bare(call: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(call, cst.Call)
        value = call.args[0].value if call.args else cst.ensure_type(call.func, cst.Attribute).value
        kept = in_brackets(value)
        return cst.Call(cst.Attribute(kept, cst.Name(method))) if method else kept

    return replaced(node, READ, bare)


def in_brackets(node: cst.BaseExpression) -> cst.BaseExpression:
    simple = isinstance(node, cst.Name | cst.Call | cst.Attribute | cst.Subscript)
    if simple or node.lpar:
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def rewrite(source: str, rewriter: Rewriter, where: Frame, *, whole: bool) -> str | None:
    """Return the changed source, or None.

    If ``whole``, the rewriter gets the ``def`` that ``where`` names.
    """
    try:
        module, ranges = _placed(source)
    except (cst.ParserSyntaxError, RecursionError):
        return None
    finder = _Rewriting(rewriter, whole, where, lines(source), ranges)
    changed = module.visit(finder)
    return changed.code if finder.done else None


@lru_cache(maxsize=4)
def _placed(source: str) -> tuple[cst.Module, Mapping[cst.CSTNode, CodeRange]]:
    """Return a module and where its nodes are; for a file of 2,000 lines that takes a second."""
    wrapper = MetadataWrapper(cst.parse_module(source))
    return wrapper.module, wrapper.resolve(PositionProvider)


class _Rewriting(cst.CSTTransformer):
    """Visits the function of a place and what is around it, and no other function."""

    def __init__(
        self,
        rewriter: Rewriter,
        whole: bool,
        where: Frame,
        text: Sequence[str],
        ranges: Mapping[cst.CSTNode, CodeRange],
    ) -> None:
        super().__init__()
        self.done = False
        self._ranges = ranges
        self._rewriter = rewriter
        self._whole = whole
        self._function = where.function
        self._hits = alike(text, where.code)
        self._stack: list[str] = []

    @property
    def _name(self) -> str:
        """The qualified name of the function that is being visited, as Python writes it."""
        return ".".join(self._stack).removesuffix(".<locals>")

    @property
    def _inside(self) -> bool:
        return self._function in ("", "<module>", self._name)

    @property
    def _around(self) -> bool:
        """Whether the function that is looked for may be in what is being visited."""
        wanted = self._function
        return wanted in ("", "<module>") or f"{wanted}.".startswith(f"{self._name}.")

    def visit_ClassDef(self, node: cst.ClassDef) -> bool:
        self._stack.append(node.name.value)
        return self._around

    def leave_ClassDef(
        self, original_node: cst.ClassDef, updated_node: cst.ClassDef
    ) -> cst.ClassDef:
        self._stack.pop()
        return updated_node

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        self._stack += [node.name.value, "<locals>"]
        return self._around

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> Replacement | cst.FunctionDef:
        hit = self._inside and self._whole
        del self._stack[-2:]
        return self._change(updated_node) if hit else updated_node

    def visit_SimpleStatementLine(self, node: cst.SimpleStatementLine) -> bool:
        return False

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> Replacement | cst.SimpleStatementLine:
        if self._inside and not self._whole and self._hit(self._range(original_node)):
            return self._change(updated_node)
        return updated_node

    def _leave_block(self, original_node: Block, updated_node: Block) -> Replacement | Block:
        if self._inside and not self._whole and self._hit_header(original_node, original_node.body):
            return self._change(updated_node)
        return updated_node

    leave_If = leave_While = leave_For = _leave_block

    def _range(self, node: cst.CSTNode) -> CodeRange:
        return self._ranges[node]

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


def shown(source: str, changed: str, code: str) -> str:
    """Return what became of the line that reads like ``code``; an empty text if it is the same."""
    sides = zip(source.splitlines(), changed.splitlines(), strict=False)
    return next((new.strip() for old, new in sides if old.strip() == code and old != new), "")
