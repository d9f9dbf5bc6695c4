"""The jumps of a loop that becomes an operator: ``break``, ``continue`` and ``return`` in it.

A flag of the loop, ``STOP``, takes the place of a ``break`` or a ``return``; what a ``return`` in
the loop gives is chosen by the flag behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import libcst as cst
from libcst import matchers as m

from pytest_graphbreak.repair.patch import UnfitError
from pytest_graphbreak.repair.rewrite.operators import return_value
from pytest_graphbreak.repair.rewrite.tree import Place, code, only, statements, walk

STOP: Final = "_stop"
JUMPS: Final = (cst.Break, cst.Continue, cst.Return)
_FOREVER: Final = m.While(test=m.Name("True"))


def jumps(nodes: Sequence[cst.CSTNode]) -> list[cst.CSTNode]:
    """Return what ends a round of the loop that nodes are the body of."""
    ends: list[cst.CSTNode] = []
    for node in nodes:
        if isinstance(node, JUMPS):
            ends.append(node)
        elif isinstance(node, cst.For | cst.While):  # its own `break` is none
            ends += [part for part in walk([node.body]) if isinstance(part, cst.Return)]
            ends += jumps([node.orelse] if node.orelse else [])
        else:
            ends += jumps(node.children)
    return ends


def refuse_jumps(nodes: Sequence[cst.BaseStatement]) -> None:
    """Raise ``UnfitError`` where what follows in the round would have to know of a jump."""
    for node in jumps(nodes):
        raise UnfitError(f"`{code(node)}` in it is not at the end of an `if` of the round")


def returned_value(lines: Sequence[cst.BaseStatement]) -> cst.BaseExpression | None:
    """Return what a ``return`` in a loop gives, or None if there is none. Raises ``UnfitError``.

    One flag tells that the loop was left, so it is left in one way.
    """
    ends = [node for node in jumps(lines) if not isinstance(node, cst.Continue)]
    values = [node.value for node in ends if isinstance(node, cst.Return)]
    first = values[0] if values else None
    if not values:
        return None
    if first is None or len(values) < len(ends):
        raise UnfitError("it returns, and is left in another way too")
    if any(value is None or code(value) != code(first) for value in values):
        raise UnfitError("it returns different values")
    return first


def statements_behind(
    place: Place, value: cst.BaseExpression | None
) -> Sequence[cst.BaseStatement]:
    """Return the ``return`` behind a loop that returns a value; nothing if it never does.

    Raises ``UnfitError`` where something else follows than a ``return``.
    """
    if value is None:
        return []
    result, following = return_value(value), place.following
    if not following and m.matches(place.node, _FOREVER):
        return statements(f"return {result}")
    last = only(following[0]) if following else None
    if not isinstance(last, cst.Return) or last.value is None:
        raise UnfitError("no `return` follows it, and it returns")
    otherwise = return_value(last.value)
    if otherwise == result:
        return []
    return statements(f"return torch.cond({STOP}, lambda: {result}, lambda: {otherwise}, ())")
