"""Rewrites a ``return`` inside a loop as a ``break``, with one ``return`` behind the loop."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.rewrite.branches import checked, parts, returned
from pytest_graphbreak.repair.rewrite.kinds import held_to, type_of
from pytest_graphbreak.repair.rewrite.scope import Surroundings, UnfitError, loops_around, walk

_DTYPES: Final = {"bool": "", "int": "", "float": ", dtype=torch.float64"}


@dataclass(frozen=True, slots=True)
class LeftLoop:
    """A loop that only breaks, with what is returned behind it.

    ``inside`` is what the loop returned. ``behind`` is what is returned, or raised, if the loop
    ends otherwise, or None if it cannot, or returns the same.
    """

    loop: ast.For | ast.While
    inside: ast.expr
    behind: ast.expr | ast.Raise | None

    @property
    def values(self) -> list[ast.expr]:
        """The values that are returned, one or both."""
        return [self.inside, *([self.behind] if isinstance(self.behind, ast.expr) else ())]

    def lines(self, stop: str, place: Surroundings, numbers: Mapping[str, str]) -> list[str]:
        """Return the lines behind the loop, where the tensor ``stop`` tells whether it was left.

        ``numbers`` are the names that hold Python numbers there, with their types. Raises
        ``UnfitError``.
        """
        last = f"return {ast.unparse(self.inside)}"
        if isinstance(self.behind, ast.Raise):
            return [checked(stop, self.behind), last]
        if self.behind is None:
            return [last]
        checks, chosen = _chosen(stop, parts(self.inside), parts(self.behind), numbers)
        both = (self.inside, self.behind)
        return [*checks, *returned(stop, ((), ()), both, place, numbers=chosen)]


def _chosen(
    stop: str, first: Sequence[ast.expr], second: Sequence[ast.expr], numbers: Mapping[str, str]
) -> tuple[list[str], dict[int, str]]:
    """Return the choice between two numbers for each part of the results that has them.

    The lines before it hold names to be of the type of the number on the other side. Raises
    ``UnfitError`` for numbers of two types, and for a number or something else.
    """
    checks: list[str] = []
    chosen: dict[int, str] = {}
    for at, sides in enumerate(zip(first, second, strict=False)):
        types = {found for one in sides if (found := type_of(one, numbers))}
        if not types or ast.unparse(sides[0]) == ast.unparse(sides[1]):
            continue
        wanted = types.pop()
        for one in sides:
            if types or (not type_of(one, numbers) and not isinstance(one, ast.Name)):
                raise UnfitError(f"`{ast.unparse(one)[:60]}` is returned, or another type")
            if isinstance(one, ast.Name) and one.id not in numbers:
                checks += held_to(one.id, [wanted])
        texts = (f"torch.full((), {ast.unparse(side)}{_DTYPES[wanted]})" for side in sides)
        chosen[at] = f"torch.where({stop}, {', '.join(texts)}).item()"
    return checks, chosen


def without_return(node: ast.stmt, place: Surroundings) -> LeftLoop | None:
    """Return a loop with ``break`` for its ``return``, or None if it has no ``return`` of its own.

    Raises ``UnfitError`` if it returns in more than one place, or if nothing is returned behind it.
    """
    if not isinstance(node, ast.While | ast.For):
        return None
    returns = [one for one in walk(node.body) if isinstance(one, ast.Return)]
    if not returns:
        return None
    inside = returns[0].value
    changed = copy.deepcopy(node)
    if inside is None or _become_breaks(changed.body) < len(returns):
        raise UnfitError(f"it holds `{ast.unparse(returns[0])[:60]}`")
    for one in returns[1:]:
        if ast.unparse(one) != ast.unparse(returns[0]):
            raise UnfitError("it returns different things in more than one place")
    always = isinstance(node, ast.While) and isinstance(node.test, ast.Constant)
    then = place.then if not always else None
    behind = then.value if isinstance(then, ast.Return) else then
    if behind is None and not always:
        raise UnfitError(f"no `return` follows it, and it holds `{ast.unparse(returns[0])[:60]}`")
    if behind is not None and ast.unparse(behind) == ast.unparse(inside):
        behind = None
    return LeftLoop(changed, inside, behind)


def _become_breaks(body: list[ast.stmt]) -> int:
    """Turn each ``return`` at the end of an ``if`` into a ``break``, and return how many."""
    found = 0
    for one in body:
        if isinstance(one, ast.If) and isinstance(one.body[-1], ast.Return):
            one.body[-1] = ast.copy_location(ast.Break(), one.body[-1])
            found += 1
    return found


def raises(source: str, where: Frame) -> bool:
    """Return whether the innermost loop around a place raises if it was not left."""
    return any(
        isinstance(last, ast.Raise)
        for node, place in loops_around(source, where)
        for last in (place.then, *getattr(node, "orelse", []))
    )
