"""Rewrites a ``return`` inside a loop as a ``break``, with one ``return`` behind the loop."""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass

from pytest_graphbreak.repair.rewrite.branches import refuse
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
    def returned(self) -> list[ast.expr]:
        """The values that are returned, one or both."""
        return [self.inside] if self.behind is None else [self.inside, self.behind]

    def lines(self, stop: str) -> list[str]:
        """Return the lines behind the loop, where the tensor ``stop`` tells whether it was left.

        What is not the same at both ends is chosen by ``torch.cond``. Raises ``UnfitError``.
        """
        if self.behind is None:
            return [f"return {ast.unparse(self.inside)}"]
        refuse([ast.Expr(one) for one in self.returned])
        pairs = [*zip(_parts(self.inside), _parts(self.behind), strict=False)]
        if not len(pairs) == len(_parts(self.inside)) == len(_parts(self.behind)):
            raise UnfitError("it returns another number of values than what follows it")
        chosen = [number for number, (one, other) in enumerate(pairs) if not _same(one, other)]
        names = [f"_chosen_{number}" for number in range(len(chosen))]
        lines: list[str] = []
        for side, name in enumerate(("_when_true", "_when_false")):
            result = ", ".join(_own(pairs[number][side]) for number in chosen)
            lines += [f"def {name}():", f"    return ({result},)", ""]
        parts = [ast.unparse(one) for one, _ in pairs]
        for name, number in zip(names, chosen, strict=True):
            parts[number] = name
        end = f"({', '.join(parts)})" if isinstance(self.inside, ast.Tuple) else parts[0]
        choice = f"torch.cond({stop}, _when_true, _when_false, ())"
        return [*lines, f"({', '.join(names)},) = {choice}", f"return {end}"]


def _parts(value: ast.expr) -> list[ast.expr]:
    return value.elts if isinstance(value, ast.Tuple) else [value]


def _same(one: ast.expr, other: ast.expr) -> bool:
    return ast.unparse(one) == ast.unparse(other)


def _own(value: ast.expr) -> str:
    """Return a value as a result of an op, which must not be one of its inputs."""
    text = ast.unparse(value)
    return f"{text}.clone()" if isinstance(value, ast.Name) else text


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
    if behind is not None and _same(behind, inside):
        behind = None
    return LeftLoop(changed, inside, behind)
