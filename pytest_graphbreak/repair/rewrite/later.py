"""Rewrites statements that only write output as calls that Dynamo makes after the graph.

``print("loss", loss.item())`` becomes ``_graphbreak_later_1(loss)``, a function of the file that
does the same with the tensors as they are then. Dynamo defers calls with tensors and constants
only, so the tensor is passed, not a value computed from it. This also covers an ``if`` that only
writes, and a call like ``losses.append(loss.item())`` on an object of the module that no other
statement of a function reads.
"""

from __future__ import annotations

import ast
import textwrap
import zlib
from collections.abc import Iterable

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.pure import LEVELS, METHODS
from pytest_graphbreak.repair.rewrite.scope import (
    Surroundings,
    UnfitError,
    bound,
    changed,
    changes_attribute,
    read,
    statements,
    values,
    walk,
)
from pytest_graphbreak.repair.source import FUNCTIONS


def to_later(node: ast.stmt, place: Surroundings) -> list[str]:
    """Return the call that replaces what a statement writes, followed by the rest of the statement.

    Raises ``UnfitError``.
    """
    writes, rest = _split(node, place)
    name, given = _given(writes, place)
    passed = _as_now(given, writes, place)
    return [f"{name}({', '.join(passed)})", *(ast.unparse(rest).splitlines() if rest else ())]


def definition(source: str, where: Frame) -> tuple[str, str] | None:
    """Return the name and source of the function for what the statement at a place writes.

    Returns None if there is no such statement.
    """
    fits = statements(source, where, (ast.Expr, ast.If))
    if not fits:
        return None
    try:
        writes, _ = _split(*fits[0])
        name, given = _given(writes, fits[0][1])
        _as_now(given, writes, fits[0][1])
    except UnfitError:
        return None
    inside = _Renamed(given).visit(ast.parse(ast.unparse(writes)))
    body = textwrap.indent(ast.unparse(inside), "    ")
    return name, f"@torch.compiler.disable\ndef {name}({', '.join(given.values())}):\n{body}"


def _split(node: ast.stmt, place: Surroundings) -> tuple[ast.stmt, ast.stmt | None]:
    """Split a statement into the part that only writes and the rest. Raises ``UnfitError``."""
    module, local = ast.parse("".join(place.text)), set(place.before)
    if not isinstance(node, ast.If):
        if not _writes(node, local, module):
            raise UnfitError("it does more than write")
        return node, None
    sides = [
        [[one for one in side if _writes(one, local, module) is kind] for kind in (True, False)]
        for side in (node.body, node.orelse)
    ]
    (first, others), (second, more) = sides
    if not first or (node.orelse and second and not others and more):
        raise UnfitError("it does more than write")
    writes = ast.If(node.test, first, second)
    if set(bound([*others, *more])) & read([*first, *second]):
        raise UnfitError("what it writes is set beside it")
    rest = ast.If(node.test, others or [ast.Pass()], more) if others or more else None
    return writes, rest


def _writes(node: ast.stmt, local: set[str], module: ast.Module) -> bool:
    """Return whether a statement only writes: output, or to an object that nothing else reads.

    Only code of functions counts as a reader.
    """
    if isinstance(node, ast.If):
        return all(_writes(one, local, module) for one in (*node.body, *node.orelse))
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return False
    function = node.value.func
    if ast.unparse(function) in ("print", "warnings.warn"):
        return True
    if not isinstance(function, ast.Attribute) or function.attr in LEVELS:
        return isinstance(function, ast.Attribute)
    root: ast.expr = function
    while isinstance(root, ast.Attribute | ast.Subscript):
        root = root.value
    name = root.id if isinstance(root, ast.Name) else ""
    made = [one for one in module.body if isinstance(one, ast.Assign | ast.AnnAssign)]
    inside = {
        part for one in ast.walk(module) if isinstance(one, FUNCTIONS) for part in ast.walk(one)
    }
    uses = sum(isinstance(one, ast.Name) and one.id == name for one in inside)
    return name in bound(made) and name not in local and uses == 1


def _given(node: ast.stmt, place: Surroundings) -> tuple[str, dict[str, str]]:
    """Return the name of the function and its arguments, each expression with its parameter."""
    found: dict[str, str] = {}
    held = [
        one
        for one in ast.walk(node)
        if isinstance(one, ast.Attribute)
        and isinstance(one.value, ast.Name)
        and one.value.id in ("self", "cls")
    ]
    for one in held:
        found[ast.unparse(one)] = one.attr
    local = set(place.before)
    inner = set(bound([node]))
    for name in ast.walk(node):
        if isinstance(name, ast.Name) and name.id in local - inner - {"self", "cls"}:
            found[name.id] = name.id
    bare = {
        one.id for one in ast.walk(node) if isinstance(one, ast.Name) and one.id in ("self", "cls")
    }
    if len(held) < sum(
        isinstance(one, ast.Name) and one.id in bare for one in ast.walk(node)
    ) or len(set(found.values())) < len(found):
        raise UnfitError("it writes more than tensors and numbers")
    text = ast.unparse(node)
    return f"_graphbreak_later_{zlib.crc32(text.encode()) % 10_000}", found


def _as_now(given: Iterable[str], node: ast.stmt, place: Surroundings) -> list[str]:
    """Return the arguments, copies of tensors where they may change before the graph has run.

    Raises ``UnfitError`` for a tensor of the module, which is not an argument.
    """
    if not _changes(place):
        return list(given)
    writers = {one.value for one in ast.walk(node) if isinstance(one, ast.Expr)}
    module = bound(ast.parse("".join(place.text)).body)
    used = {
        ast.unparse(one.func.value)
        for one in ast.walk(node)
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute)
        if one.func.attr in METHODS and one not in writers
    }
    if held := used.intersection(module) - set(given):
        raise UnfitError(f"{min(held)} may be changed in place before the graph has run")
    return [
        f"{one}.clone()"
        if one in used
        else one
        if isinstance(place.before.get(one), ast.Constant)
        else f"{one}.clone() if isinstance({one}, torch.Tensor) else {one}"
        for one in given
    ]


def _changes(place: Surroundings) -> bool:
    """Return whether a function of the file changes in place what may be a tensor."""
    for function in ast.walk(ast.parse("".join(place.text))):
        if not isinstance(function, FUNCTIONS) or function.name == "__init__":
            continue
        known = dict(values(function.body))
        numbers = {name for name, one in known.items() if isinstance(one, ast.Constant)}
        if set(changed(function.body)) - numbers or any(
            changes_attribute(one) or (isinstance(one, ast.keyword) and one.arg == "out")
            for one in walk(function.body)
        ):
            return True
    return False


class _Renamed(ast.NodeTransformer):
    """Replaces ``self.x`` by the parameter that it is passed as."""

    def __init__(self, given: dict[str, str]) -> None:
        self._given = given

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        name = self._given.get(ast.unparse(node))
        if name is not None:
            return ast.Name(name, ast.Load())
        self.generic_visit(node)
        return node
