"""Takes ``torch.compile`` out of an expression, and decorators that compile off a function."""

from __future__ import annotations

import ast
import copy
import re


def without_compile(value: ast.expr) -> ast.expr:
    """``torch.compile(X, ...)`` becomes X, wherever it is; the same object if there is none."""
    strip = _Strip()
    changed: ast.expr = strip.visit(copy.deepcopy(value))
    return changed if strip.changed else value


class _Strip(ast.NodeTransformer):
    def __init__(self) -> None:
        self.changed = False

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        inner = node.func
        if isinstance(inner, ast.Call) and _compiles(inner) and not inner.args and node.args:
            self.changed = True  # torch.compile(backend=...)(X)
            return node.args[0]
        if _compiles(node):
            given = [*node.args[:1], *(k.value for k in node.keywords if k.arg == "model")]
            if given:
                self.changed = True
                return given[0]
        return node


def same(node: ast.stmt, value: ast.expr) -> bool:
    """Whether it would assign a name to itself."""
    return isinstance(node, ast.Assign) and ast.unparse(value) in map(ast.unparse, node.targets)


def _compiles(node: ast.Call) -> bool:
    return ast.unparse(node.func) in (
        "compile",
        "torch.compile",
        "torch._dynamo.optimize",
        "dynamo.optimize",
    )


def drops(decorator: ast.expr) -> bool:
    """Decorators that compile, and those of pytest."""
    text = ast.unparse(decorator)
    return re.match(r"pytest\.|fixture\b|(torch\.)?compile\b|torch\._dynamo\.opt", text) is not None
