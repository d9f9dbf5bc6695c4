"""The part of a script that a few names need: its imports, and what defines the names."""

from __future__ import annotations

import ast
from collections.abc import Iterable


def alone(source: str, names: Iterable[str]) -> str:
    """The source of the names and of all that they use, without what runs the script.

    Decorators that compile are left out: what is compiled is for the caller to say.
    """
    tree = ast.parse(source)
    lines = source.splitlines()
    needed = _closure(tree, set(names))
    kept: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            kept.insert(0, _text(lines, node))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            kept.append(_text(lines, node))
        elif _defines(node) & needed:
            kept.append(("\n\n" if not isinstance(node, ast.Assign) else "") + _text(lines, node))
    return "\n".join(kept) + "\n"


def _text(lines: list[str], node: ast.stmt) -> str:
    body = "\n".join(lines[node.lineno - 1 : node.end_lineno])
    decorators = [
        one for one in getattr(node, "decorator_list", ()) if "compile" not in ast.unparse(one)
    ]
    return "\n".join([*(f"@{ast.unparse(one)}" for one in decorators), body])


def _defines(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Assign):
        return {
            name.id
            for target in node.targets
            for name in ast.walk(target)
            if isinstance(name, ast.Name)
        }
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return {node.target.id}
    return set()


def _closure(tree: ast.Module, roots: set[str]) -> set[str]:
    """The roots and every global that what defines them uses, and so on."""
    homes: dict[str, list[ast.stmt]] = {}
    for node in tree.body:
        for name in _defines(node):
            homes.setdefault(name, []).append(node)
    needed, waiting = set(), list(roots)
    while waiting:
        name = waiting.pop()
        if name in needed:
            continue
        needed.add(name)
        for node in homes.get(name, ()):
            waiting += [
                one.id for one in ast.walk(node) if isinstance(one, ast.Name) and one.id in homes
            ]
    return needed
