"""A branch on a tensor's value becomes ``torch.cond``, which runs one of its sides.

Before::

    if x.norm() > 1:
        x = x / x.norm()

After::

    x = torch.cond(x.norm() > 1, lambda: x / x.norm(), lambda: x.clone())

When not: both sides have to give a tensor of the same shape and dtype, and change nothing in place:
torch refuses the rest while the graph is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import libcst as cst

from pytest_graphbreak.model.record import Break
from pytest_graphbreak.repair.patch import SourcePatch, UnfitError
from pytest_graphbreak.repair.rewrite.choices import choice_of
from pytest_graphbreak.repair.rewrite.tree import Place, code, rewriting
from pytest_graphbreak.repair.trial import Trial


def propose(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    if "if " in item.where.code:
        yield SourcePatch("the branch became torch.cond", CHANGE, item.where)


def to_cond(place: Place) -> str:
    """Return the statement that chooses by ``torch.cond``. Raises ``UnfitError``."""
    choice = choice_of(place)
    sides = []
    for value in choice.values:
        if isinstance(value, cst.Tuple | cst.List | cst.Dict | cst.Integer | cst.Float):
            raise UnfitError(f"`{code(value)[:60]}` is no tensor")
        # An operator may not give its input.
        sides.append(f"lambda: {code(value)}{'.clone()' if isinstance(value, cst.Name) else ''}")
    return f"{choice.head}torch.cond({choice.test}, {', '.join(sides)})"


CHANGE: Final = rewriting(to_cond)
