"""Finds the line by which code of a test is no longer compiled, or is compiled at all.

Files are parsed and never run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, TypeGuard

from pytest_graphbreak.layers.instances import METHODS, Followed, Helpers, followed
from pytest_graphbreak.layers.statements import (
    LOOPS,
    Set,
    Source,
    around,
    called_in,
    given_to,
    line_of,
    loops_around,
    names_compile,
    names_in,
    parameters_of,
    sets_of,
    tree_of,
    word_of,
)
from pytest_graphbreak.model.stacks import Line

_RESETS: Final = ("torch._dynamo.reset", "torch.compiler.reset", "dynamo.reset")
"""How the names of the functions begin that make Dynamo forget: ``reset_code_caches`` is one."""
_MOST_LINES: Final = 3
DEPTH: Final = 3
"""How many helpers of a test are followed, one called by the other."""


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
    known = {parts[-2] if len(parts) > 1 and parts[-1] in METHODS else parts[-1]}
    if line := _renamed(known, followed(test, source, helpers), source, helpers):
        return line
    scope = around(test, source)
    made, compiled = _made(known, scope), {node.lineno for node in _compiling(scope)}
    chosen = [one for one in made if one.line not in compiled] or made
    return line_of(test.file, chosen[-1].line, source) if chosen else None


def compiles(
    test: Line,
    source: Source,
    helpers: Helpers = no_helpers,
    name: str = "",
    files: Sequence[str] = (),
) -> list[Line]:
    """Return the lines that compile, with the heads of their loops: at most three.

    They are those of the test and of its helpers, else those of its file and of the other ``files``
    of the project; with a name, only those that mention it.
    """
    found: dict[Line, None] = {}
    whole = ((file, tree_of(file, source)) for file in dict.fromkeys((test.file, *files)))
    own = ((one.file, one.node) for one in _with_helpers(test, source, helpers))
    for file, scope in chain(own, whole):
        if found and isinstance(scope, ast.Module):
            break
        for node in _compiling(scope, name):
            lines = (*(one.lineno for one in loops_around(scope, node.lineno)[-1:]), node.lineno)
            found |= {line_of(file, line, source): None for line in lines}
    return [*found][:_MOST_LINES]


def uses(name: str, files: Iterable[str], source: Source) -> list[Line]:
    """Return the lines of files that read a function or a setting by its name: at most three."""
    lines = {
        (file, node.lineno): None
        for file in files
        for node in ast.walk(tree_of(file, source))
        if isinstance(node, ast.Attribute | ast.Name) and word_of(node) == name
    }
    return [line_of(file, line, source) for file, line in sorted(lines)][:_MOST_LINES]


def disables(code: str, files: Iterable[str], source: Source) -> Line | None:
    """Return the line that sets what a line calls to something that the compiler passes over."""
    names = called_in(code)
    for file in files:
        for node in ast.walk(tree_of(file, source)):
            if (
                isinstance(node, ast.Assign)
                and names.intersection(*map(_words, node.targets))
                and any(getattr(one, "attr", "") == "disable" for one in ast.walk(node.value))
            ):
                return line_of(file, node.lineno, source)
    return None


def _with_helpers(test: Line, source: Source, helpers: Helpers) -> Iterator[Followed]:
    """Yield a test and the project's functions that it calls, each once."""
    seen = {test}
    todo = [(followed(test, source, helpers), DEPTH)]
    while todo:
        scope, depth = todo.pop(0)
        yield scope
        for _, code, owner in scope.calls if depth else ():
            if code not in seen:
                seen.add(code)
                todo.append((followed(code, source, helpers, owner), depth - 1))


def _words(node: ast.AST) -> set[str]:
    """Return the names and attributes in an expression."""
    return {word_of(one) for one in ast.walk(node)}


def loops(test: Line, source: Source, helpers: Helpers = no_helpers) -> Iterator[Line]:
    """Yield the heads of the loops of a test and its helpers, and what is passed for them."""
    for scope in _with_helpers(test, source, helpers):
        for loop in (node for node in ast.walk(scope.node) if isinstance(node, LOOPS)):
            yield line_of(scope.file, loop.lineno, source)
        for call, helper, _ in scope.calls:
            inner = around(helper, source)
            read = {name for loop in ast.walk(inner) for name in _looped_over(loop)}
            if read.intersection(parameters_of(helper, source)):
                for line in sorted({call.lineno, *(one.lineno for one in call.args)}):
                    yield line_of(scope.file, line, source)


def _looped_over(node: ast.AST) -> frozenset[str]:
    return names_in(node.iter) if isinstance(node, ast.For) else frozenset()


def resets(test: Line, source: Source, helpers: Helpers = no_helpers) -> Line | None:
    """Return the line of a test, or of its helpers, that makes Dynamo forget what it compiled."""
    for scope in _with_helpers(test, source, helpers):
        for node in ast.walk(scope.node):
            if isinstance(node, ast.Attribute) and ast.unparse(node).startswith(_RESETS):
                return line_of(scope.file, node.lineno, source)
    return None


def _renamed(
    known: set[str], scope: Followed, source: Source, helpers: Helpers, depth: int = DEPTH
) -> Line | None:
    """Return the line that turns the compiler off, or only gives what is known another name."""
    lines = [one.lineno for one in ast.walk(scope.node) if turns_off(one)]
    names = set(known)
    kept = _kept(scope.node)
    made = (one.line for one in _made(names, scope.node) if one.hands_on)
    lines = lines or [line for line in made if line not in kept]
    if lines:
        return line_of(scope.file, lines[-1], source)
    for call, helper, owner in scope.calls if depth else ():
        given = given_to(helper, call, source)
        passed = {name for name, value in given.items() if names_in(value) & names}
        inner = followed(helper, source, helpers, owner)
        if line := _renamed(known | passed, inner, source, helpers, depth - 1):
            return line
    return None


def _kept(scope: ast.AST) -> set[int]:
    """Return the lines by which a constructor keeps its arguments: ``self.model = model``."""
    return {
        node.lineno
        for node in ast.walk(scope)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Attribute)
        and word_of(node.targets[0]) == word_of(node.value)
    }


def _made(known: set[str], scope: ast.AST) -> list[Set]:
    """Return the statements that set something to what is known, and add its names to that."""
    made = []
    for one in sorted((*sets_of(scope), *_inner(scope)), key=lambda one: one.line):
        if one.reads & known:
            known |= one.names
            made.append(one)
    return made


def _compiling(scope: ast.AST, name: str = "") -> list[ast.expr]:
    """Return the calls and decorators that compile; with a name, only what they compile by it."""
    found: list[ast.expr] = []
    for node in ast.walk(scope):
        if isinstance(node, ast.FunctionDef) and name in ("", node.name):
            found += [one for one in node.decorator_list if names_compile(one)]
        elif (
            isinstance(node, ast.Call)
            and names_compile(node)
            and (not name or name in _words(node))
        ):
            found.append(node)
    return [*dict.fromkeys(found)]


def _inner(scope: ast.AST) -> Iterator[Set]:
    """Yield the functions that a function defines, each as a line that sets it by what it reads."""
    for node in ast.walk(scope):
        if isinstance(node, ast.FunctionDef) and node is not scope:
            yield Set(node.lineno, node.lineno, frozenset((node.name,)), names_in(node), False)


def turns_off(node: ast.AST) -> TypeGuard[ast.keyword | ast.Attribute]:
    """Return whether a node is ``disable=`` of a call, ``config.disable`` or ``set_stance``."""
    if isinstance(node, ast.Attribute):
        parent = word_of(node.value)
        return node.attr == "set_stance" or (node.attr, parent) == ("disable", "config")
    if not isinstance(node, ast.keyword) or node.arg != "disable":
        return False
    return not isinstance(node.value, ast.Constant) or bool(node.value.value)
