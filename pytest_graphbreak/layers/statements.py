"""The statements of a source file: the function around a line, what sets a name, the loops.

Files are parsed and never run.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from pytest_graphbreak.model.places import function_name
from pytest_graphbreak.model.stacks import Line
from pytest_graphbreak.text.source import parsed

FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)
Loop = ast.For | ast.AsyncFor | ast.While
_HANDING_ON: Final = ("enumerate", "zip", "iter", "reversed", "list", "tuple")

Source = Callable[[str], Sequence[str]]
"""A function that returns the lines of a file; none if it cannot be read."""


@lru_cache(16)
def _parsed(text: str) -> ast.Module:
    try:
        return parsed(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def tree_of(file: str, source: Source) -> ast.Module:
    return _parsed("".join(source(file)))


@lru_cache(16)
def nodes_of(tree: ast.Module) -> tuple[ast.AST, ...]:
    """Return all nodes of a file. Each recompile asks for them, and library files are long."""
    return tuple(ast.walk(tree))


@lru_cache(16)
def functions_of(tree: ast.Module) -> tuple[Function, ...]:
    return tuple(node for node in nodes_of(tree) if isinstance(node, FUNCTIONS))


def around(line: Line, source: Source) -> ast.AST:
    """Return the innermost function of that name around a line, else the whole file."""
    tree = tree_of(line.file, source)
    name = function_name(line.name)
    found = [
        node
        for node in functions_of(tree)
        if getattr(node, "name", "<lambda>") == name
        and min([node.lineno, *(item.lineno for item in getattr(node, "decorator_list", ()))])
        <= line.line
        <= (node.end_lineno or node.lineno)
    ]
    return max(found, key=lambda node: node.lineno, default=tree)


class Set(NamedTuple):
    """A statement that sets names, or the head of a loop.

    ``varies``: it computes something with what differs from step to step of a loop.
    ``hands_on``: it only takes something out of what another line made. ``adds``: it computes with
    operators alone, which keep a shape. ``grows``: it makes something of what it made a step ago.
    """

    line: int
    end: int
    names: frozenset[str]
    reads: frozenset[str]
    hands_on: bool
    varies: bool = False
    adds: bool = False
    grows: bool = False


def slice_of(scope: ast.AST, line: int, names: frozenset[str] | None) -> list[Set]:
    """Return the statements that set names for a line that runs, the latest first.

    Those of the step before come last. Without names, all in the loops around the line.
    """
    loops = [
        range(node.lineno, (node.end_lineno or node.lineno) + 1)
        for node in ast.walk(scope)
        if isinstance(node, LOOPS) and node.lineno < line <= (node.end_lineno or node.lineno)
    ]
    sets = sorted(sets_of(scope), key=lambda one: -one.line)
    before = [one for one in sets if one.end < line]
    after = [one for one in sets if one.end >= line and any(one.line in loop for loop in loops)]
    if names is None:
        before = [one for one in before if any(one.line in loop for loop in loops)]
    found: list[Set] = []
    wanted = set(names or ())
    for one in (*before, *after):
        if names is None or one.names & wanted:
            grows = bool(one.names & one.reads) and not any(
                one.names & other.names and other.line < one.line and other.line in loop
                for other in sets
                for loop in loops
            )
            grows = grows and any(one.line in loop for loop in loops)
            varies = one.varies or grows
            found.append(one._replace(varies=varies, grows=grows and not one.adds))
            wanted |= one.reads
    return found


def sets_of(scope: ast.AST) -> list[Set]:
    """Return the statements of a function or a module, without those of inner functions."""
    found: list[Set] = []
    counted: set[str] = set()
    todo = [*ast.iter_child_nodes(scope)]
    while todo:
        node = todo.pop()
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            continue
        todo += ast.iter_child_nodes(node)
        pair = pair_of(node)
        if pair is None:
            continue
        targets, value = pair
        names = frozenset[str]().union(*(names_in(target, ast.Store) for target in targets))
        if isinstance(node, (*LOOPS, ast.AugAssign)):
            counted |= names
        line = getattr(node, "lineno", value.lineno)
        end = value.end_lineno or line
        parts = [one for one in targets if isinstance(one, ast.Subscript)]  # x[i] = y changes x
        names |= frozenset().union(*(names_in(one.value) for one in parts))
        reads = names_in(value).union(*(names_in(one.slice) for one in parts))
        handed = _hands_on(value) and not parts
        found.append(Set(line, end, names, reads, handed, adds=isinstance(value, ast.BinOp)))
    return [one._replace(varies=bool(one.reads & counted) and not one.hands_on) for one in found]


def counters(scope: ast.AST) -> frozenset[str]:
    """Return the variables that count the steps of the loops of a function."""
    found = set[str]()
    for node in ast.walk(scope):
        match node:
            case ast.For(
                target=ast.Tuple(elts=[first, *_]), iter=ast.Call(func=ast.Name("enumerate"))
            ):
                found |= names_in(first)
            case ast.For(target=target, iter=ast.Call(func=ast.Name("range"))):
                found |= names_in(target)
            case ast.AugAssign(target=ast.Name() as target, value=ast.Constant() | ast.Name()):
                found |= names_in(target)
    return frozenset(found)


def pair_of(node: ast.AST) -> tuple[list[ast.expr], ast.expr] | None:
    """Return what a statement sets, and to what."""
    match node:
        case ast.Assign(targets=targets, value=value):
            return targets, value
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            return [target], value
        case ast.AugAssign(target=target, op=op, value=value):
            return [target], ast.copy_location(ast.BinOp(target, op, value), value)
        case ast.NamedExpr(target=target, value=value):
            return [target], value
        case ast.For(target=target, iter=value) | ast.AsyncFor(target=target, iter=value):
            return [target], value
        case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
            return [target], value
    return None


def names_in(
    node: ast.AST | None, kind: type[ast.expr_context] = ast.expr_context
) -> frozenset[str]:
    """Return the variables in an expression, all or those that it sets."""
    found = ast.walk(node) if node is not None else ()
    return frozenset(
        one.id for one in found if isinstance(one, ast.Name) and isinstance(one.ctx, kind)
    )


def _hands_on(value: ast.expr) -> bool:
    """Return whether a value is one that another line made, or a part of it."""
    match value:
        case ast.Name():
            return True
        case ast.Attribute(value=inner) | ast.Subscript(value=inner, slice=ast.Constant()):
            return _hands_on(inner)
        case ast.Starred(value=inner):
            return _hands_on(inner)
        case ast.Tuple(elts=parts):
            return all(map(_hands_on, parts))
        case ast.Call(func=ast.Name(id=name), args=parts) if name in _HANDING_ON:
            return all(map(_hands_on, parts))
    return False


def word_of(node: ast.AST) -> str:
    """Return the name of a variable or of an attribute; empty for other nodes."""
    return str(getattr(node, "attr", getattr(node, "id", "")))


def called_in(code: str) -> set[str]:
    """Return the names of the functions and methods that a line of code calls."""
    try:
        tree = parsed(code)
    except (SyntaxError, ValueError):
        return set()
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {word_of(one) for one in calls}


def parameters_of(line: Line, source: Source) -> list[str]:
    """Return the parameters of a function, without ``self``; keyword-only ones come last."""
    function = around(line, source)
    if not isinstance(function, FUNCTIONS):
        return []
    given = function.args
    names = [item.arg for item in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return names[1:] if names[:1] == ["self"] else names


def given_to(helper: Line, call: ast.Call, source: Source) -> dict[str, ast.expr]:
    """Return what a call passes to a function, by its parameters."""
    given = dict(zip(parameters_of(helper, source), call.args, strict=False))
    return given | {one.arg: one.value for one in call.keywords if one.arg}


def names_compile(node: ast.AST) -> bool:
    """Return whether a node is ``compile`` of torch or of a module, or calls it."""
    named = node.func if isinstance(node, ast.Call) else node
    return (
        isinstance(named, ast.Attribute)
        and named.attr == "compile"
        and getattr(named.value, "id", "") != "re"
    )


def loops_around(scope: ast.AST, line: int) -> list[Loop]:
    """Return the loops that a line is in, the innermost last."""
    loops = (node for node in ast.walk(scope) if isinstance(node, LOOPS))
    holding = (node for node in loops if node.lineno < line <= (node.end_lineno or 0))
    return sorted(holding, key=lambda node: node.lineno)


def statement_at(scope: ast.AST, line: int) -> ast.stmt | None:
    """Return the innermost statement at a line."""
    found = [
        node
        for node in ast.walk(scope)
        if isinstance(node, ast.stmt)
        and node.lineno <= line <= (node.end_lineno or node.lineno)
        and not isinstance(node, (*FUNCTIONS, ast.ClassDef))
    ]
    return max(found, key=lambda node: (node.lineno, -(node.end_lineno or 0)), default=None)


def line_of(file: str, number: int, source: Source) -> Line:
    return Line(file, number, "", source(file)[number - 1].strip())
