"""The functions and classes of a source text, with the names that Python gives them.

``places`` asks them which function is around a line.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

_BLOCKS = (ast.Module, ast.stmt, ast.ExceptHandler, ast.match_case)
"""The nodes in which a function or a class may be defined."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_ESCAPE: Final = re.compile(r"\\(?:([\\'\"\r\n]|N\{)|)")
"""A backslash, and what follows it where that decides the end of a string, or of its line."""


class Scope(NamedTuple):
    """A function, class, lambda or generator expression of a file; lines are 1-based, inclusive.

    ``name`` is ``forward`` and ``qualname`` ``Head.forward``. ``line`` is that of ``def`` or
    ``class``, ``first`` that of the first decorator.
    """

    name: str
    qualname: str
    first: int
    last: int
    line: int


def scopes_of(lines: Sequence[str], *, expressions: bool) -> tuple[Scope, ...]:
    """Return the scopes of a source text; none if it cannot be parsed (a template, newer syntax).

    These are functions and classes only. With ``expressions`` they include lambdas and generator
    expressions: every expression of the file is looked at then.
    """
    try:
        tree = parse_source("".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    scopes: list[Scope] = []
    # An explicit stack is used, since generated sources nest deeper than Python recurses.
    todo: list[tuple[ast.AST, str]] = [(tree, "")]
    while todo:
        node, prefix = todo.pop()
        if not (expressions or isinstance(node, _BLOCKS)):
            continue
        outer, name, inner = _parts(node)
        todo.extend((child, prefix) for child in outer)
        if not name:
            continue
        assert isinstance(node, (ast.stmt, ast.expr))
        starts = [node.lineno, *(item.lineno for item in getattr(node, "decorator_list", ()))]
        qualname = prefix + name
        last = node.end_lineno or node.lineno
        scopes.append(Scope(name, qualname, min(starts), last, node.lineno))
        below = ".<locals>." if isinstance(node, _FUNCTIONS) else "."
        todo.extend((child, qualname + below) for child in inner)
    return tuple(scopes)


def _parts(node: ast.AST) -> tuple[Iterable[ast.AST], str, Iterable[ast.AST]]:
    """Return a node's children in the outer scope, its name if it is a scope, and the rest."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return [*node.decorator_list, node.args], node.name, node.body
    if isinstance(node, ast.ClassDef):
        return [*node.decorator_list, *node.bases, *node.keywords], node.name, node.body
    if isinstance(node, ast.Lambda):
        return [node.args], "<lambda>", [node.body]
    if isinstance(node, ast.GeneratorExp):
        # The first iterable is evaluated in the outer scope, and so is a lambda in it.
        first = node.generators[0]
        children = [child for child in ast.iter_child_nodes(node) if child is not first]
        return [first.iter], "<genexpr>", [*children, first.target, *first.ifs]
    return ast.iter_child_nodes(node), "", ()


def innermost(scopes: Sequence[Scope], line: int, name: str) -> Scope | None:
    """Return the innermost scope of that name around a line; without a name, any function."""
    enclosing = [scope for scope in scopes if scope.first <= line <= scope.last]
    if name:
        enclosing = [scope for scope in enclosing if name in (scope.name, scope.qualname)]
    else:
        enclosing = [scope for scope in enclosing if not scope.name.startswith("<")]
    return max(enclosing, key=lambda scope: (scope.first, -scope.last), default=None)


def parse_source(text: str) -> ast.Module:
    """Return the tree of a source text; strings have an underscore for the backslash of an escape.

    Python warns of ``"\\d"`` whenever it parses it, and filters of warnings belong to the program.
    Lines and columns stay. Raises what ``ast.parse`` raises.
    """
    return ast.parse(_ESCAPE.sub(lambda match: match[0] if match[1] else "_", text))
