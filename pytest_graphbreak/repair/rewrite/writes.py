"""Tells which statements only write output, and takes them out of a loop.

A line that calls a function of the program is not one of them: it may raise, and its error would
be lost.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.pure import LEVELS, METHODS
from pytest_graphbreak.repair.rewrite.scope import UnfitError, changed, loops_around, walk

NOTES: Final = frozenset({"append", "extend"})
"""Methods that note a value in an object that other code may read."""
_WRITES: Final = frozenset(
    {"warn", "write", "writelines", "flush", "add_scalar", "set_postfix", "set_description"}
    | {*LEVELS, "warning_once", "warning_advice", "sleep"}
)
"""Methods that write; what they raise is not what a program is written for."""
_READS: Final = METHODS | {"item", "numpy", "cpu", "format", "join", "time", "encode"}
_BUILTINS: Final = frozenset(
    {"abs", "bool", "float", "int", "len", "list", "max", "min", "repr", "round", "str", "sum"}
    | {"tuple", "type"}
)


def writes(name: str) -> bool:
    """Return whether a function visibly only writes: ``print``, or a method of an object held."""
    holder, _, method = name.rpartition(".")
    return name == "print" or (holder not in ("", "self", "cls") and method in _WRITES)


def notes(name: str) -> bool:
    """Return whether a function visibly adds a value to an object that is held."""
    holder, _, method = name.rpartition(".")
    return holder not in ("", "self", "cls") and method in NOTES


def reads(name: str) -> bool:
    """Return whether a function visibly only computes."""
    holder, _, method = name.rpartition(".")
    if holder in ("", "self", "cls"):
        return not holder and method in _BUILTINS
    return name.startswith(("torch.", "math.")) or method in _READS


def written_in_loop(source: str, where: Frame) -> list[str]:
    """Return the statements that only write, of the innermost loop around a place, as text."""
    found = loops_around(source, where)
    return [text for node, _ in found for text in _split(getattr(node, "body", []))[1]]


def quiet(node: ast.stmt) -> ast.stmt:
    """Return a loop without the statements in it that only write. Raises ``UnfitError``."""
    if not isinstance(node, ast.While | ast.For):
        raise UnfitError("it is no loop")
    body, written = _split(node.body)
    if not written:
        raise UnfitError("nothing in it only writes")
    fields = dict(ast.iter_fields(node)) | {"body": body or [ast.Pass()]}
    return ast.copy_location(type(node)(**fields), node)


def _split(body: Sequence[ast.stmt]) -> tuple[list[ast.stmt], list[str]]:
    """Return statements without those that only write, and the text of these."""
    kept: list[ast.stmt] = []
    written: list[str] = []
    for one in body:
        if _only_writes(one):
            written.append(ast.unparse(one).splitlines()[0])
        elif isinstance(one, ast.If):
            first, lost = _split(one.body)
            second, more = _split(one.orelse)
            written += lost + more
            changed_if = ast.If(one.test, first or [ast.Pass()], second)
            kept.append(ast.copy_location(changed_if, one) if lost or more else one)
        else:
            kept.append(one)
    return kept, written


def _only_writes(node: ast.stmt) -> bool:
    if isinstance(node, ast.If):
        sides = (*node.body, *node.orelse)
        return _only_computes(node.test) and all(map(_only_writes, sides))
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return False
    call = node.value
    parts = [*call.args, *(one.value for one in call.keywords)]
    return writes(ast.unparse(call.func)) and all(map(_only_computes, parts))


def _only_computes(value: ast.expr) -> bool:
    calls = [one for one in walk([value]) if isinstance(one, ast.Call)]
    plain = not any(isinstance(one, ast.NamedExpr | ast.Await) for one in walk([value]))
    return plain and not changed([value]) and all(reads(ast.unparse(one.func)) for one in calls)
