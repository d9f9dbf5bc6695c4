"""Finds the statement that holds a line, and puts there what a rewriter makes of it."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.rewrite.parts import Replacement, Rewriter, Statement
from pytest_graphbreak.repair.source import lines


def rewrite(source: str, rewriter: Rewriter, where: Frame, *, whole: bool) -> str | None:
    """The source changed, or None. ``whole`` rewriters get the ``def`` that ``where`` names."""
    try:
        wrapper = MetadataWrapper(cst.parse_module(source))
    except (cst.ParserSyntaxError, RecursionError):
        return None
    finder = _Rewriting(rewriter, whole, where, lines(source))
    changed = wrapper.visit(finder)
    return changed.code if finder.done else None


class _Rewriting(cst.CSTTransformer):
    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, rewriter: Rewriter, whole: bool, where: Frame, text: Sequence[str]) -> None:
        super().__init__()
        self.done = False
        self._rewriter = rewriter
        self._whole = whole
        self._function = where.function
        code = " ".join(where.code.split())
        self._hits = {
            number for number, line in enumerate(text, 1) if " ".join(line.split()) == code
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

    def leave_For(self, original_node: cst.For, updated_node: cst.For) -> Replacement | cst.For:
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
