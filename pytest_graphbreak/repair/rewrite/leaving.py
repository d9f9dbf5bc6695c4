"""Rewrites a ``return`` inside a loop as a ``break``, with one ``return`` behind the loop."""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass

from pytest_graphbreak.repair.rewrite.branches import returned
from pytest_graphbreak.repair.rewrite.scope import Surroundings, UnfitError, walk


@dataclass(frozen=True, slots=True)
class LeftLoop:
    """A loop that only breaks, with what is returned behind it.

    ``inside`` is what the loop returned. ``behind`` is what is returned if the loop ends otherwise,
    or None if it cannot, or returns the same.
    """

    loop: ast.For | ast.While
    inside: ast.expr
    behind: ast.expr | None

    @property
    def values(self) -> list[ast.expr]:
        """The values that are returned, one or both."""
        return [self.inside] if self.behind is None else [self.inside, self.behind]

    def lines(self, stop: str, place: Surroundings) -> list[str]:
        """Return the lines behind the loop, where the tensor ``stop`` tells whether it was left.

        Raises ``UnfitError``.
        """
        if self.behind is None:
            return [f"return {ast.unparse(self.inside)}"]
        return returned(stop, ((), ()), (self.inside, self.behind), place)


def without_return(node: ast.stmt, place: Surroundings) -> LeftLoop | None:
    """Return a loop with ``break`` for its ``return``, or None if it has no ``return`` of its own.

    Raises ``UnfitError`` if it returns in more than one place, or if nothing is returned behind it.
    """
    if not isinstance(node, ast.While | ast.For):
        return None
    returns = [one for one in walk(node.body) if isinstance(one, ast.Return)]
    if not returns:
        return None
    changed = copy.deepcopy(node)
    ways = [one.body for one in changed.body if isinstance(one, ast.If)]
    last = next((one for one in ways if isinstance(one[-1], ast.Return)), None)
    inside = returns[0].value
    if len(returns) > 1 or last is None or inside is None:
        raise UnfitError(f"it holds `{ast.unparse(returns[0])[:60]}`")
    last[-1] = ast.copy_location(ast.Break(), last[-1])
    always = isinstance(node, ast.While) and isinstance(node.test, ast.Constant)
    behind = place.then.value if place.then is not None and not always else None
    if behind is None and not always:
        raise UnfitError(f"no `return` follows it, and it holds `{ast.unparse(returns[0])[:60]}`")
    if behind is not None and ast.unparse(behind) == ast.unparse(inside):
        behind = None
    return LeftLoop(changed, inside, behind)
