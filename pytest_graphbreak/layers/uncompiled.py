"""Finds the line by which code of a test is no longer compiled, or is compiled at all.

Files are parsed and never run.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeGuard

from pytest_graphbreak.layers.statements import (
    Set,
    Source,
    around,
    line_of,
    loops_around,
    names_in,
    parameters_of,
    sets_of,
    tree_of,
)
from pytest_graphbreak.model.stacks import Line

_METHODS: Final = ("forward", "__call__")
_RESETS: Final = ("torch._dynamo.reset", "torch.compiler.reset", "dynamo.reset")
_DEPTH: Final = 3
"""How many helpers of a test are followed, one called by the other."""

Helpers = Callable[[str, str], Line | None]
"""The ``def`` of the function that a file calls by a name; None if it is not the project's."""


def no_helpers(file: str, name: str) -> Line | None:
    """Return None: no other function is known."""
    return None


def uncompiled(
    function: str, test: Line, source: Source, helpers: Helpers = no_helpers
) -> Line | None:
    """Return the line by which a function or a method of a class comes to be called in a test.

    That is the line that turns the compiler off, the last that only gives the function another
    name, as ``run = model`` does, in the test or in a helper that the test calls, or the last line
    of the test that sets what is made of it.
    """
    parts = [part for part in function.split(".") if part != "<locals>"]
    known = {parts[-2] if len(parts) > 1 and parts[-1] in _METHODS else parts[-1]}
    if line := _renamed(known, test, source, helpers):
        return line
    scope = around(test, source)
    made, compiled = _made(known, scope), _compiling(scope)
    chosen = [one for one in made if one.line not in compiled] or made
    return line_of(test.file, chosen[-1].line, source) if chosen else None


def compiles(test: Line, source: Source) -> Line | None:
    """Return the line that compiles in a test, else in its file, or the head of its loop.

    Returns None if several lines do.
    """
    for scope in (around(test, source), tree_of(test.file, source)):
        calls = _compiling(scope)
        heads = {found[-1].lineno for call in calls if (found := loops_around(scope, call))}
        if len(heads or calls) == 1:
            return line_of(test.file, (heads or calls).pop(), source)
    return None


def resets(
    test: Line, source: Source, helpers: Helpers = no_helpers, depth: int = _DEPTH
) -> Line | None:
    """Return the line of a test, or of its helpers, that makes Dynamo forget what it compiled."""
    scope = around(test, source)
    for node in ast.walk(scope):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in _RESETS:
            return line_of(test.file, node.lineno, source)
    found = (helpers(test.file, call.func.id) for call in _helper_calls(scope)) if depth else ()
    lines = (resets(one, source, helpers, depth - 1) for one in found if one is not None)
    return next((line for line in lines if line), None)


def _renamed(
    known: set[str], code: Line, source: Source, helpers: Helpers, depth: int = _DEPTH
) -> Line | None:
    """Return the line that turns the compiler off, or only gives what is known another name."""
    scope = around(code, source)
    lines = [one.lineno for one in ast.walk(scope) if turns_off(one)]
    names = set(known)
    lines = lines or [one.line for one in _made(names, scope) if one.hands_on]
    if lines:
        return line_of(code.file, lines[-1], source)
    for call in _helper_calls(scope) if depth else ():
        helper = helpers(code.file, call.func.id)
        if helper is None:
            continue
        given = dict(zip(parameters_of(helper, source), call.args, strict=False))
        given |= {one.arg: one.value for one in call.keywords if one.arg}
        passed = {name for name, value in given.items() if names_in(value) & names}
        if line := _renamed(known | passed, helper, source, helpers, depth - 1):
            return line
    return None


def _made(known: set[str], scope: ast.AST) -> list[Set]:
    """Return the statements that set something to what is known, and add its names to that."""
    made = []
    for one in sorted((*sets_of(scope), *_inner(scope)), key=lambda one: one.line):
        if one.reads & known:
            known |= one.names
            made.append(one)
    return made


def _helper_calls(scope: ast.AST) -> list[Any]:
    """Return the calls of functions by a plain name."""
    calls = (node for node in ast.walk(scope) if isinstance(node, ast.Call))
    return [call for call in calls if isinstance(call.func, ast.Name)]


def _compiling(scope: ast.AST) -> set[int]:
    """Return the lines that call ``compile``, of torch or of a module."""
    return {
        node.lineno
        for node in ast.walk(scope)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "compile"
        and getattr(node.func.value, "id", "") != "re"
    }


def _inner(scope: ast.AST) -> Iterator[Set]:
    """Yield the functions that a function defines, each as a line that sets it by what it reads."""
    for node in ast.walk(scope):
        if isinstance(node, ast.FunctionDef) and node is not scope:
            yield Set(node.lineno, node.lineno, frozenset((node.name,)), names_in(node), False)


def turns_off(node: ast.AST) -> TypeGuard[ast.keyword | ast.Attribute]:
    """Return whether a node is ``disable=`` of a call, ``config.disable`` or ``set_stance``."""
    if isinstance(node, ast.Attribute):
        parent = getattr(node.value, "attr", getattr(node.value, "id", ""))
        return node.attr == "set_stance" or (node.attr, parent) == ("disable", "config")
    if not isinstance(node, ast.keyword) or node.arg != "disable":
        return False
    return not isinstance(node.value, ast.Constant) or bool(node.value.value)
