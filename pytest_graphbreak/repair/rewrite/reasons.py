"""What a break tells by its reason: whether a tensor's value decides what runs."""

from __future__ import annotations

from typing import Final

from pytest_graphbreak import advice
from pytest_graphbreak.model.record import Break

_VALUES: Final = frozenset(
    {"assert", "branch", "compare", "item", "loop", "mask", "nonzero", "one-hot", "tolist"}
    | {"unbacked"}
)
_CALLER: Final = "encountered graph break when attempting to trace"
"""How a caller's reason begins where torch 2.13 does not repeat that of the function it calls."""


def _reads_value(item: Break) -> bool:
    """Return whether a graph breaks where the value of a tensor is read."""
    reason = item.reason.lower()
    words = ("data dependent", "data-dependent", "dynamic shape", "branch")
    return advice.name(item) in _VALUES or any(word in reason for word in words)


def may_branch(item: Break) -> bool:
    """Return whether a tensor's value may decide what runs where a graph breaks."""
    if "if " not in item.where.code:
        return False
    return _reads_value(item) or item.reason.lower().startswith(_CALLER)
