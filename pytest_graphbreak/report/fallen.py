"""What only fell with a graph break, so that one cause is told once.

Where a frame breaks, those around it that hold the line are skipped, compiled alone, compiled
again, or break where they were traced before; on a device the values between them become graphs.
All of it comes back when the break is mended, and needs no advice of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pytest_graphbreak.layers.dynamo.messages import LIMIT
from pytest_graphbreak.model.layers import DESCRIPTIONS
from pytest_graphbreak.model.record import Break, Eager, Frame, Graph, Recompile, Record


@dataclass(slots=True)
class Fallen:
    """What fell with one break."""

    breaks: list[Break] = field(default_factory=list)
    eager: list[Eager] = field(default_factory=list)
    recompiles: list[Recompile] = field(default_factory=list)
    graphs: list[Graph] = field(default_factory=list)


@dataclass(slots=True)
class Sorted:
    """Breaks that stand for themselves, each with what fell with it, and the rest that does."""

    breaks: list[tuple[Break, Fallen]] = field(default_factory=list)
    eager: list[Eager] = field(default_factory=list)
    recompiles: list[Recompile] = field(default_factory=list)
    graphs: list[Graph] = field(default_factory=list)


def sort(
    record: Record,
    breaks: Sequence[Break],
    eager: Iterable[Eager],
    recompiles: Iterable[Recompile] = (),
    graphs: Iterable[Graph] = (),
) -> Sorted:
    """Put under the first break that explains it each later break, frame, recompile and graph.

    A frame fell with a break if the break's stack runs through it. ``breaks`` are in the order
    in which they happened; ``record`` says what the graphs of Dynamo were.
    """
    found = Sorted()
    for item in breaks:
        before = next((fallen for one, fallen in found.breaks if _traced_before(item, one)), None)
        if before is not None:
            before.breaks.append(item)
        else:
            found.breaks.append((item, Fallen()))
    stacks = [_functions(one, *fallen.breaks) for one, fallen in found.breaks]
    causes = {one.name: one.cause for one in record.graph_list if one.layer == "dynamo"}
    entries = {_frame(name) for name, cause in causes.items() if cause == "entry"}

    def cause(where: Frame) -> Fallen | None:
        pairs = zip(stacks, found.breaks, strict=True)
        return next((pair[1] for stack, pair in pairs if where.key[:2] in stack), None)

    for left in eager:
        fallen = None if LIMIT.search(left.reason) else cause(left.where)
        (fallen.eager if fallen else found.eager).append(left)
    for recompile in recompiles:
        # What the user compiled (an entry) is compiled again for a reason of its own.
        own = recompile.layer != "dynamo" or _frame(recompile.graph) in entries
        fallen = None if own else cause(recompile.where)
        (fallen.recompiles if fallen else found.recompiles).append(recompile)

    def by_call(graph: Graph) -> Fallen | None:
        """Of the break below the very function whose sync computes what eager code left pending."""
        calls = ((one.stack[:1], fallen) for one, fallen in found.breaks)
        here = graph.where.key[:2]
        return next((fallen for outer, fallen in calls if outer and outer[0].key[:2] == here), None)

    def by_sources(graph: Graph) -> Fallen | None:
        """Of the break since which the function that was waited for is a graph of its own."""
        own = any(causes.get(name, "entry") == "entry" for name in graph.sources)
        return None if own or not graph.sources else cause(graph.where)

    rules = {"call": by_call, "sources": by_sources}
    for graph in graphs:
        rule = rules.get(DESCRIPTIONS[graph.layer].cause(graph.cause).falls_with)
        fallen = rule(graph) if rule else None
        (fallen.graphs if fallen else found.graphs).append(graph)
    return found


def _functions(*breaks: Break) -> set[tuple[str, ...]]:
    return {frame.key[:2] for item in breaks for frame in (*item.stack, item.where)}


def _traced_before(item: Break, earlier: Break) -> bool:
    """Whether a break is in code that was traced without one before an ``earlier`` break came.

    So it is where a caller of that break breaks on a line above the call: had it been able to
    break there by itself, it had been the first.
    """
    return any(
        frame.key[:2] == item.where.key[:2] and 0 < item.where.line < frame.line
        for frame in earlier.stack[:-1]
    )


def _frame(graph: str) -> str:
    """Dynamo's number of the frame: ``2`` of ``2/1``; a round of the test's own stays (``#2``)."""
    number, _, rest = graph.partition("/")
    return f"{number}#{rest.partition('#')[2]}"
