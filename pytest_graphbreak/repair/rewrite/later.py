"""Statements that only write, as calls that Dynamo makes when the graph has run.

``print("loss", loss.item())`` -> ``_graphbreak_later_1(loss)``, a function of the file that does
the same with the tensors as they then are. What Dynamo defers takes tensors and constants alone,
so it is the tensor that goes in, and not what is worked out from it.
"""

from __future__ import annotations

import ast
import zlib

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.rewrite.scope import Surroundings, UnfitError, bound, statements


def to_later(node: ast.stmt, place: Surroundings) -> list[str]:
    """The call in place of a statement. Raises ``UnfitError``."""
    name, given = _given(node, place)
    return [f"{name}({', '.join(given)})"]


def definition(source: str, where: Frame) -> tuple[str, str] | None:
    """The name of the function for the statement at a place, and its source."""
    fits = statements(source, where, (ast.Expr,))
    if not fits:
        return None
    node, place = fits[0]
    try:
        name, given = _given(node, place)
    except UnfitError:
        return None
    inside = _Renamed(given).visit(ast.parse(ast.unparse(node)))
    body = ast.unparse(inside)
    return name, f"@torch.compiler.disable\ndef {name}({', '.join(given.values())}):\n    {body}"


def _given(node: ast.stmt, place: Surroundings) -> tuple[str, dict[str, str]]:
    """The name of the function, and what goes into it: each expression with its parameter."""
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
    if changed := set(found) & place.changed:
        raise UnfitError(f"{min(changed)} is changed in place before the graph has run")
    text = ast.unparse(node)
    return f"_graphbreak_later_{zlib.crc32(text.encode()) % 10_000}", found


class _Renamed(ast.NodeTransformer):
    """``self.x`` as the parameter that it is given as."""

    def __init__(self, given: dict[str, str]) -> None:
        self._given = given

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        name = self._given.get(ast.unparse(node))
        if name is not None:
            return ast.Name(name, ast.Load())
        self.generic_visit(node)
        return node
