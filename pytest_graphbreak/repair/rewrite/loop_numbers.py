"""Tells which names of a loop have to be numbers of Python, and which must not be any.

In an operator a number is a tensor without dimensions. Python computes with it like with a number
in a few forms only: ``n += 1``, ``e < tol``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import libcst as cst
from libcst import matchers as m

from pytest_graphbreak.repair.rewrite.conditions import READS, is_number
from pytest_graphbreak.repair.rewrite.names import bound, read
from pytest_graphbreak.repair.rewrite.tree import Place, walk

_EXACT: Final = m.OneOf(m.Add(), m.Subtract(), m.Multiply())
CONSTANT: Final = m.OneOf(m.Integer(), m.Float(), m.Name("True"), m.Name("False"))
_SAFE: Final = m.OneOf(
    *(m.Assign(), m.AssignTarget(), m.BooleanOperation(), m.If(), m.While(), m.Return()),
    *(m.UnaryOperation(operator=m.Not()), m.Element(), m.Tuple()),
    m.AugAssign(operator=m.OneOf(m.AddAssign(), m.SubtractAssign(), m.MultiplyAssign())),
)
"""Where a name may stand for a number of Python or for a tensor of its value alike."""


def numbers_of(inside: Sequence[cst.BaseStatement]) -> set[str]:
    """Return the names that have to be numbers: ``n += 1``, ``e = x.max().item()``."""
    found = set()
    for one in walk(inside):
        if isinstance(one, cst.AugAssign) and isinstance(one.target, cst.Name):
            found.add(one.target.value)
        elif isinstance(one, cst.Assign) and m.findall(one.value, READS):
            found |= {x.target.value for x in one.targets if isinstance(x.target, cst.Name)}
    return found


def made_tensors(inside: Sequence[cst.BaseStatement], numbers: Sequence[str]) -> set[str]:
    """Return the names that a round may set to a tensor: behind the loop they are no numbers."""
    number: Any = m.OneOf(CONSTANT, m.Name("_"), *map(m.Name, numbers))
    found = set()
    for one in walk(inside):
        if isinstance(one, cst.Assign) and not m.findall(one.value, READS):
            operation = m.BinaryOperation(left=number, right=number)
            if not m.matches(one.value, number | operation):
                found |= {x.target.value for x in one.targets if isinstance(x.target, cst.Name)}
    return found


def tensors_of(place: Place, numbers: Sequence[str]) -> set[str]:
    """Return the names that must not be numbers, since tensors of them may compute otherwise.

    ``1 / n`` is a double for a number, and float32 for a tensor; so is ``x.max() * h`` not.
    """
    tree, varying, found = place.tree, set(bound(place, [place.node])), set[str]()
    known = m.OneOf(m.Name("_"), *map(m.Name, numbers))
    for node in walk([place.node]):
        if not isinstance(node, cst.Name) or node.value not in varying or node not in tree.accesses:
            continue
        parent = tree.parents[node]
        parent = tree.parents[parent] if isinstance(parent, cst.ComparisonTarget) else parent
        if isinstance(parent, cst.Comparison):
            sides = [parent.left, *(one.comparator for one in parent.comparisons)]
            safe = all(
                x is node or is_number(x) or not varying & {*read(place, [x])} for x in sides
            )
        elif isinstance(parent, cst.BinaryOperation) and m.matches(parent.operator, _EXACT):
            other = parent.right if parent.left is node else parent.left
            safe = is_number(other) or m.matches(other, known)
        else:
            safe = m.matches(parent, _SAFE)
        found |= set() if safe else {node.value}
    return found
