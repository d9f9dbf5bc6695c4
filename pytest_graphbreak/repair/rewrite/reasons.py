"""What a break tells by its reason and its stack: whether a value decides, which function it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_graphbreak import advice
from pytest_graphbreak.model.record import Break, Frame
from pytest_graphbreak.repair.trial import Trial

_VALUES: Final = frozenset(
    {"assert", "branch", "compare", "item", "loop", "mask", "nonzero", "one-hot", "tolist"}
    | {"unbacked"}
)
_CALLER: Final = "encountered graph break when attempting to trace"
"""How a caller's reason begins where torch 2.13 does not repeat that of the function it calls."""


def reads_value(item: Break) -> bool:
    """Return whether a graph breaks where the value of a tensor is read."""
    reason = item.reason.lower()
    words = ("data dependent", "data-dependent", "dynamic shape", "branch")
    return advice.name(item) in _VALUES or any(word in reason for word in words)


def may_branch(item: Break) -> bool:
    """Return whether a tensor's value may decide what runs where a graph breaks."""
    return reads_value(item) or item.reason.lower().startswith(_CALLER)


def inlined_frames(item: Break, trial: Trial) -> Iterator[Frame]:
    """Yield the functions between the compiled one and a break, innermost first.

    The compiled function itself is left out: uncompiled, or as one node, nothing would be compiled.
    """
    roots = {
        *trial.roots,
        *(x.where.function for x in trial.record.graph_list if x.cause == "entry"),
    }
    frames = [frame for frame in item.stack if frame.function not in ("", "<module>")]
    compiled = [number for number, frame in enumerate(frames) if frame.function in roots]
    yield from frames[: (compiled[0] if compiled else 0) : -1]
