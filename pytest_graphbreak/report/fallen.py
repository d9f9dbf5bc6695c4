"""What only fell with a graph break, so that one cause is told once.

Where a frame breaks, those around it that hold the line are skipped, compiled alone and
compiled again. They come back when the break is mended, and need no advice of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pytest_graphbreak.record import Break, Eager, Graph, Recompile

_LIMIT = re.compile(r"(recompile|cache_size|cache size)[ _]limit", re.IGNORECASE)
"""A limit is hit by recompiles, not by a break."""


@dataclass(slots=True)
class Fallen:
    """What fell with one break."""

    eager: list[Eager] = field(default_factory=list)
    recompiles: list[Recompile] = field(default_factory=list)


@dataclass(slots=True)
class Sorted:
    """``under`` is what fell with each break, in their order; the rest stands for itself."""

    under: list[Fallen]
    eager: list[Eager] = field(default_factory=list)
    recompiles: list[Recompile] = field(default_factory=list)


def sort(
    breaks: Sequence[Break],
    eager: Iterable[Eager],
    recompiles: Iterable[Recompile],
    graphs: Iterable[Graph],
) -> Sorted:
    """Put each skipped frame and each recompile under the first break that explains it.

    A frame fell with a break if the break's stack runs through it. A function that the user
    compiled (an ``entry``) is compiled again for a reason of its own.
    """
    found = Sorted([Fallen() for _ in breaks])
    stacks = [{frame.key[:2] for frame in (*item.stack, item.where)} for item in breaks]
    entries = {_frame(graph.name) for graph in graphs if graph.cause == "entry"}

    def cause(item: Eager | Recompile) -> Fallen | None:
        place = item.where.key[:2]
        pairs = zip(stacks, found.under, strict=True)
        return next((fallen for stack, fallen in pairs if place in stack), None)

    for left in eager:
        fallen = None if _LIMIT.search(left.reason) else cause(left)
        (fallen.eager if fallen else found.eager).append(left)
    for again in recompiles:
        own = again.layer != "dynamo" or _frame(again.graph) in entries
        fallen = None if own else cause(again)
        (fallen.recompiles if fallen else found.recompiles).append(again)
    return found


def _frame(graph: str) -> str:
    """Dynamo's number of the frame: ``2`` of ``2/1``; a round of the test's own stays (``#2``)."""
    number, _, rest = graph.partition("/")
    return f"{number}#{rest.partition('#')[2]}"
