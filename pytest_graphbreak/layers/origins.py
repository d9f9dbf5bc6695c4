"""Finds the line that sets what a failed guard names: an attribute, or a global.

This is the only place where the gate reads source to explain a record. A line is given only if no
other line of the function's module, and of the modules that call it, can be the one. Files are
parsed and never run.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence, Set
from functools import lru_cache
from typing import Final

from pytest_graphbreak.model.scopes import parse_source
from pytest_graphbreak.model.stacks import Line

Source = Callable[[str], list[str]]
"""Returns the lines of a file, with their ends."""

_CHANGES: Final = frozenset(
    {"append", "extend", "insert", "add", "update", "pop", "remove", "clear", "setdefault"}
)
"""Methods by which a list, a set or a mapping changes in place."""
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def setter(
    subject: str, is_global: bool, code: Line, callers: Sequence[Line], source: Source
) -> Line | None:
    """Return the one line that can have set ``subject``, or None if none or several can.

    ``subject`` is what the guard of the function ``code`` names, as it is written there
    (``self.scale``, ``LIMIT``); ``callers`` are the user's frames above the function. The line by
    which a module, a class or a constructor first sets it counts only if there is no other.
    """
    name = _name(subject, is_global)
    if not name:
        return None
    first: set[tuple[str, int]] = set()
    later: set[tuple[str, int]] = set()
    for file in dict.fromkeys((code.file, *(line.file for line in callers))):
        # In another file a global of this name is another global.
        global_names = {name} if is_global and file == code.file else set[str]()
        for line, is_first in _lines_that_set(_tree("".join(source(file))), name, global_names):
            (first if is_first else later).add((file, line))
    lines = later or first
    if len(lines) != 1:
        return None
    ((file, number),) = lines
    return Line(file, number, "", source(file)[number - 1].strip())


def _name(subject: str, is_global: bool) -> str:
    """Return the attribute or the global that an expression ends in; empty for a local."""
    try:
        node = ast.parse(subject, mode="eval").body
    except (SyntaxError, ValueError):
        return ""
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) and is_global else ""


@lru_cache(8)
def _tree(text: str) -> ast.Module:
    """Return the syntax tree of a file; an empty one if it cannot be parsed."""
    try:
        return parse_source(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def _lines_that_set(
    tree: ast.Module, name: str, global_names: Set[str]
) -> Iterator[tuple[int, bool]]:
    """Yield the lines that set an attribute called ``name``, or one of the ``global_names``.

    Each comes with whether it is one that sets it first: of a class, a constructor, a module.
    """
    # A node, whether it sets first, and the plain variables that are the attribute or the global:
    # ``scale`` sets the attribute in the body of a class; in a function it is a local, except
    # after ``global scale``.
    todo: list[tuple[ast.AST, bool, Set[str]]] = [(tree, True, global_names)]
    while todo:
        node, is_first, variables = todo.pop()
        if isinstance(node, _FUNCTIONS):
            is_first = getattr(node, "name", "") == "__init__"
            variables = global_names & _declared_global(node)
        elif isinstance(node, ast.ClassDef):
            variables = {name}  # what its body sets are its attributes
        elif isinstance(node, ast.AnnAssign) and node.value is None:
            continue  # a declaration sets nothing
        for child in ast.iter_child_nodes(node):
            # To change an object in place, a function needs no ``global``.
            if _sets(child, name, variables) or _changes(child, name, global_names):
                yield getattr(child, "lineno", 0), is_first
            todo.append((child, is_first, variables))


def _declared_global(function: ast.AST) -> frozenset[str]:
    """Return the names that a function declares as global."""
    nodes = (node for node in ast.walk(function) if isinstance(node, ast.Global))
    return frozenset(name for node in nodes for name in node.names)


def _sets(node: ast.AST, name: str, names: Set[str]) -> bool:
    """Return whether a node sets or deletes the attribute or one of the globals."""
    match node:
        case ast.Call(func=ast.Name(id="setattr"), args=[_, ast.Constant(value=text), *_]):
            return bool(text == name)
        case ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Name(ctx=ast.Store() | ast.Del()):
            return _is_named(node, name, names)
    return False


def _changes(node: ast.AST, name: str, names: Set[str]) -> bool:
    """Return whether a node changes what the attribute or the global holds, in place."""
    match node:
        case ast.Call(func=ast.Attribute(value=changed, attr=method)) if method in _CHANGES:
            return _is_named(changed, name, names)
        case ast.Subscript(value=inner, ctx=ast.Store() | ast.Del()):
            return _is_named(inner, name, names)
    return False


def _is_named(node: ast.AST, name: str, names: Set[str]) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == name
    return isinstance(node, ast.Name) and node.id in names
