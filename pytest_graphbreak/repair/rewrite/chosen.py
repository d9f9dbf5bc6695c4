"""Rewrites ``x[best]``, where a tensor without dimensions chooses, as an index of one element.

Python would need the number that ``best`` holds; ``x[best.reshape(1)][0]`` does not. But it is a
copy, and no view of ``x``.
"""

from __future__ import annotations

import ast

from pytest_graphbreak.repair.rewrite.kinds import kind
from pytest_graphbreak.repair.rewrite.rounds import by_index, shares
from pytest_graphbreak.repair.rewrite.scope import Surroundings, UnfitError, walk


def to_index(node: ast.stmt, place: Surroundings) -> list[str]:
    """Rewrite each index of a statement that may be such a tensor. Raises ``UnfitError``."""
    names = {
        part.id
        for one in walk([node])
        if isinstance(one, ast.Subscript) and isinstance(one.ctx, ast.Load)
        for index in (one.slice.elts if isinstance(one.slice, ast.Tuple) else [one.slice])
        for part in ast.walk(index)
        if isinstance(part, ast.Name) and isinstance(index, ast.Name | ast.BinOp)
    }
    hoisted = _Hoisted()
    changed = hoisted.visit(ast.parse(ast.unparse(node)).body[0])
    numbers = {one for one in names if kind(place.before.get(one)) is None} | hoisted.names
    if not numbers:
        raise UnfitError("no tensor is an index in it")
    if isinstance(node, ast.Return) and shares(changed.value, numbers):
        bases = {one.value for one in walk([node]) if isinstance(one, ast.Subscript)}
        roots = {part.id for one in bases for part in ast.walk(one) if isinstance(part, ast.Name)}
        if given := sorted(roots & place.given):
            raise UnfitError(f"a view of {given[0]} is returned")
    (done,) = by_index([changed], numbers, place.changed)
    return [*hoisted.lines, *ast.unparse(done).splitlines()]


class _Hoisted(ast.NodeTransformer):
    """Gives a name to each call that is an index: ``x[d.argmax()]``."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: set[str] = set()

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.slice, ast.Call):
            name = f"_index_{len(self.lines) + 1}"
            self.lines.append(f"{name} = {ast.unparse(node.slice)}")
            self.names.add(name)
            node.slice = ast.Name(name, ast.Load())
        return node
