"""Tells which names of a loop have to be numbers of Python, and which must not be any.

In an operator a number is a tensor without dimensions. Python computes with it like with a number
in a few forms only: ``n += 1``, ``e < tol``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import libcst as cst
from libcst import matchers as m

from pytest_graphbreak.repair.patch import UnfitError
from pytest_graphbreak.repair.rewrite.conditions import READS, is_number
from pytest_graphbreak.repair.rewrite.names import bound_names, read
from pytest_graphbreak.repair.rewrite.tree import Place, walk

_EXACT: Final = m.OneOf(m.Add(), m.Subtract(), m.Multiply())
CONSTANT: Final = m.OneOf(m.Integer(), m.Float(), m.Name("True"), m.Name("False"))
_SAFE: Final = m.OneOf(
    *(m.Assign(), m.AssignTarget(), m.BooleanOperation(), m.If(), m.While(), m.Return()),
    *(m.UnaryOperation(operator=m.Not()), m.Element(), m.Tuple()),
    m.AugAssign(operator=m.OneOf(m.AddAssign(), m.SubtractAssign(), m.MultiplyAssign())),
)
"""Where a name may stand for a number of Python or for a tensor of its value alike."""


def kinds(
    place: Place,
    lines: Sequence[cst.BaseStatement],
    state: Sequence[str],
    used: Sequence[str],
    carried: Sequence[str],
    counters: set[str],
) -> str:
    """Return three lists of names of the state as source, for the helper of the loop.

    Those that no round reads before it sets them, those that have to be numbers, those that must
    not be any. Raises ``UnfitError`` for a name of both.
    """
    loose = [name for name in state if name not in carried]
    numbers = sorted(numbers_of(lines) & set(state) | counters)
    fresh = new_tensors(lines, numbers) & set(used)
    tensors = sorted((tensors_of(place, numbers) | fresh) & set(state))
    if mixed := set(tensors) & set(numbers):
        raise UnfitError(f"a tensor would not compute like the number {min(mixed)}")
    return f"{loose}, {numbers}, {tensors}"


def numbers_of(lines: Sequence[cst.BaseStatement]) -> set[str]:
    """Return the names that have to be numbers: ``n += 1``, ``e = x.max().item()``."""
    names = set()
    for node in walk(lines):
        if isinstance(node, cst.AugAssign) and isinstance(node.target, cst.Name):
            names.add(node.target.value)
        elif isinstance(node, cst.Assign) and m.findall(node.value, READS):
            names |= _targets(node)
    return names


def new_tensors(lines: Sequence[cst.BaseStatement], numbers: Sequence[str]) -> set[str]:
    """Return the names that a round may set to a tensor: behind the loop they are no numbers."""
    number: Any = m.OneOf(CONSTANT, m.Name("_"), *map(m.Name, numbers))
    names = set()
    for node in walk(lines):
        if isinstance(node, cst.Assign) and not m.findall(node.value, READS):
            operation = m.BinaryOperation(left=number, right=number)
            if not m.matches(node.value, number | operation) and not _steps(node):
                names |= _targets(node)
    return names


def _steps(node: cst.Assign) -> bool:
    """Return whether a number stays one, and a tensor a tensor: ``n = n + 1``."""
    name = m.OneOf(*map(m.Name, _targets(node) or {""}))
    step = m.BinaryOperation(left=name, operator=_EXACT, right=m.Integer())
    return len(node.targets) == 1 and m.matches(node.value, step)


def _targets(node: cst.Assign) -> set[str]:
    return {part.target.value for part in node.targets if isinstance(part.target, cst.Name)}


def tensors_of(place: Place, numbers: Sequence[str]) -> set[str]:
    """Return the names that must not be numbers, since tensors of them may compute otherwise.

    ``1 / n`` is a double for a number, and float32 for a tensor; so is ``x.max() * h`` not.
    """
    tree, varying, names = place.tree, set(bound_names(place, [place.node])), set[str]()
    number = m.OneOf(m.Name("_"), *map(m.Name, numbers))
    for node in walk([place.node]):
        if not isinstance(node, cst.Name) or node.value not in varying or node not in tree.accesses:
            continue
        parent = tree.parents[node]
        parent = tree.parents[parent] if isinstance(parent, cst.ComparisonTarget) else parent
        if isinstance(parent, cst.Comparison):
            sides = [parent.left, *(target.comparator for target in parent.comparisons)]
            safe = all(
                side is node or is_number(side) or not varying & {*read(place, [side])}
                for side in sides
            )
        elif isinstance(parent, cst.BinaryOperation) and m.matches(parent.operator, _EXACT):
            operand = parent.right if parent.left is node else parent.left
            safe = is_number(operand) or m.matches(operand, number)
        else:
            safe = m.matches(parent, _SAFE)
        names |= set() if safe else {node.value}
    return names
