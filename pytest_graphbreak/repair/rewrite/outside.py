"""Tells which functions of a file are only called from code that is not compiled.

Functions are told apart by their names alone: one that is mentioned otherwise than to be called, or
by any function that may be compiled, may be compiled as well.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from pytest_graphbreak.repair.source import FUNCTIONS, Function


@dataclass(frozen=True, slots=True)
class _Mention:
    name: str
    calls: bool
    inside: str
    """The outermost function or method around it; empty for code of the module."""


def compiled(module: ast.Module) -> list[Function]:
    """Return the functions and methods of a file that may run in compiled code.

    Functions in others belong to these.
    """
    every = list(_outermost(module.body))
    mentions = list(_mentions(module, every))
    free = {one.name for one in every if not one.decorator_list and not _is_called_by_rule(one)}
    while True:
        bad = {one.name for one in mentions if not (one.calls and one.inside in {"", *free})}
        if not bad & free:
            return [one for one in every if one.name not in free]
        free -= bad


def inlined(source: str, name: str) -> bool:
    """Return whether another function that may be compiled calls the one of a qualified name."""
    own = name.rpartition(".")[2]
    texts = (own, f"self.{own}") if "." in name else (own,)
    return any(
        isinstance(part, ast.Call) and ast.unparse(part.func) in texts
        for one in compiled(ast.parse(source))
        if one.name != own
        for part in ast.walk(one)
    )


def _outermost(body: list[ast.stmt]) -> Iterator[Function]:
    """Yield the functions of a module and the methods of its classes."""
    for one in body:
        if isinstance(one, FUNCTIONS):
            yield one
        elif isinstance(one, ast.ClassDef):
            yield from _outermost(one.body)
        else:
            for name in ("body", "orelse", "finalbody"):
                inner = getattr(one, name, None)
                if isinstance(inner, list):
                    yield from _outermost(inner)


def _is_called_by_rule(function: Function) -> bool:
    """Return whether something else than a call by its name may run it: ``__call__``, a module."""
    name = function.name
    return name == "forward" or (name.startswith("__") and name.endswith("__"))


def _mentions(module: ast.Module, every: list[Function]) -> Iterator[_Mention]:
    known = {id(part): one.name for one in every for part in ast.walk(one)}
    called = {id(one.func) for one in ast.walk(module) if isinstance(one, ast.Call)}
    names = {one.name for one in every}
    for node in ast.walk(module):
        name = getattr(node, "attr", getattr(node, "id", ""))
        if isinstance(node, ast.Name | ast.Attribute) and name in names:
            yield _Mention(name, id(node) in called, known.get(id(node), ""))
        elif isinstance(node, ast.Constant) and node.value in names:
            yield _Mention(str(node.value), False, "")  # getattr(x, "f")
