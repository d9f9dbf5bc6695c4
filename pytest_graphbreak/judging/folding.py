"""Which break made something happen, so that one cause is told once.

Where a frame breaks, those around it that hold the line are skipped, compiled alone, compiled
again, or break where they were traced before; on a device the values between them become graphs.
All of it goes when the break does, and needs no advice of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from pytest_graphbreak.layers.dynamo.messages import LIMIT
from pytest_graphbreak.model.layers import DESCRIPTIONS
from pytest_graphbreak.model.record import Break, Eager, Frame, Graph, Recompile, Record


class Folding:
    """The breaks of a record by what they run through.

    ``breaks`` are in the order in which they happened; ``record`` says what the graphs of Dynamo
    were. Each method gives back the break that something happened with, or None.
    """

    def __init__(self, record: Record, breaks: Sequence[Break]) -> None:
        self._leading: list[Break] = []
        self._stacks: list[set[tuple[str, ...]]] = []
        self._followers: dict[int, Break] = {}
        for item in breaks:
            head = next((one for one in self._leading if _follows(item, one)), None)
            if head is None:
                self._leading.append(item)
                self._stacks.append(_functions(item))
            else:
                self._followers[id(item)] = head
                self._stacks[self._leading.index(head)] |= _functions(item)
        self._causes = {one.name: one.cause for one in record.graph_list if one.layer == "dynamo"}
        entries = (name for name, cause in self._causes.items() if cause == "entry")
        self._entries = {_frame(name) for name in entries}

    def of_break(self, item: Break) -> Break | None:
        """The earlier break without which this code would be traced as before."""
        return self._followers.get(id(item))

    def of_eager(self, item: Eager) -> Break | None:
        """The break that runs through the frame that is skipped."""
        return None if LIMIT.search(item.reason) else self.through(item.where)

    def of_recompile(self, item: Recompile) -> Break | None:
        """The break that runs through the function; what the user compiled has its own reason."""
        own = item.layer != "dynamo" or _frame(item.graph) in self._entries
        return None if own else self.through(item.where)

    def of_graph(self, item: Graph) -> Break | None:
        """The break by the rule of the graph's cause (``GraphCause.falls_with``)."""
        rule = DESCRIPTIONS[item.layer].cause(item.cause).falls_with
        if rule == "call":
            # The very function whose sync computes what eager code left pending.
            here = item.where.key[:2]
            calls = ((one.stack[:1], one) for one in self._leading)
            return next((one for outer, one in calls if outer and outer[0].key[:2] == here), None)
        if rule == "sources":
            # Since the break, the function that was waited for is a graph of its own.
            own = any(
                name not in self._causes or _frame(name) in self._entries for name in item.sources
            )
            return None if own or not item.sources else self.through(item.where)
        return None

    def through(self, where: Frame) -> Break | None:
        """The first break that runs through the function of a place."""
        pairs = zip(self._stacks, self._leading, strict=True)
        return next((head for stack, head in pairs if where.key[:2] in stack), None)


def _functions(item: Break) -> set[tuple[str, ...]]:
    return {frame.key[:2] for frame in (*item.stack, item.where)}


def _follows(item: Break, earlier: Break) -> bool:
    """Whether two breaks are of one disabled function, or the earlier made the other."""
    same = bool(item.disabled.file) and item.disabled.key == earlier.disabled.key
    return same or _traced_before(item, earlier)


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
