"""Joins a value that only the next statement reads with that statement.

``ppl = math.exp(loss.item())`` and ``losses.append(ppl)`` become
``losses.append(math.exp(loss.item()))``, which can be written after the graph (``later``).
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from copy import deepcopy

from pytest_graphbreak.repair.rewrite.conditions import name_of
from pytest_graphbreak.repair.rewrite.scope import Surroundings, UnfitError

Fit = tuple[ast.stmt, Surroundings]


def to_joined(node: ast.stmt, place: Surroundings) -> list[str]:
    """Return the next statement, with the value of this one in it. Raises ``UnfitError``."""
    assert isinstance(node, ast.Assign)
    name = name_of(node.targets[0]) if len(node.targets) == 1 else ""
    following = _next(node, place)
    if not name or not isinstance(following, ast.Expr):
        raise UnfitError("no statement follows that only writes its value")
    nodes = {*place.earlier, *(part for one in place.later for part in ast.walk(one))}
    reads = [one for one in nodes if isinstance(one, ast.Name) and one.id == name]
    if len(reads) != 1 or reads[0] not in ast.walk(following):
        raise UnfitError(f"{name} is used elsewhere, too")
    return ast.unparse(_Inlined(name, node.value).visit(deepcopy(following))).splitlines()


def rest(fits: Sequence[Fit]) -> list[tuple[ast.stmt, Surroundings, list[str]]]:
    """Return the statements that were joined with those before them, which are gone."""
    found = ((_next(node, place), place) for node, place in fits)
    return [(one, place, []) for one, place in found if one is not None]


def _next(node: ast.stmt, place: Surroundings) -> ast.stmt | None:
    """Return the statement that follows in the same block, if one does."""
    after = min(place.later, key=lambda one: one.lineno, default=None)
    return after if after is not None and after.col_offset == node.col_offset else None


class _Inlined(ast.NodeTransformer):
    """Replaces a name by an expression."""

    def __init__(self, name: str, value: ast.expr) -> None:
        self._name = name
        self._value = value

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._value if node.id == self._name else node
