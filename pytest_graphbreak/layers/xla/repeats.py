"""Explains the graphs of a window, and finds those that one lazy line compiled again.

A graph of lazy tensors has no guard: it is compiled again where a shape, a type or a constant
differs. The numbers of its inputs and outputs are all that is compared, with the nearest earlier
graph of the line: torch_xla (2.9) reports no shapes. The text of a graph could only be had before
each sync, at 0.7 ms for seven operations, since it is gone once the graph is compiled. The locals
of the caller have shapes, but to read them (``f_locals``, before Python 3.13) keeps its tensors
alive, which changes the graph that is compiled next.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace as replace_graph

from pytest_graphbreak.layers.xla.events import Event
from pytest_graphbreak.layers.xla.explain import LAZY, READERS, graph
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import NOWHERE, Graph


def explain(events: Sequence[Event], places: Places) -> tuple[list[Graph], set[str]]:
    """Return one graph for each compilation of a window, in order, named by its number.

    Also returns the names of those that one lazy line compiled again.
    """
    graphs = [graph(str(number), event, places) for number, event in enumerate(events)]
    explained = [*graphs]
    repeated: set[str] = set()
    for number, after in enumerate(graphs):
        earlier = (before for before in reversed(graphs[:number]) if _is_same_code(before, after))
        if (before := next(earlier, None)) is not None:
            repeated.add(after.name)
            reason = f"{_difference(before, after)}, and {after.reason} compiles its graph again"
            explained[number] = replace_graph(after, cause="recompile", reason=reason)
    return [_with_same_lines(item, graphs) for item in explained], repeated


def _with_same_lines(item: Graph, graphs: Sequence[Graph]) -> Graph:
    """Return a graph that names all lines with its text: a baseline cannot tell them apart."""
    lines = {
        later.where.line
        for later in graphs
        if later.cause == item.cause in LAZY and later.where.key == item.where.key
    }
    if len(lines) < 2:
        return item
    *first, last = (f"{item.where.file}:{line}" for line in sorted(lines))
    return replace_graph(item, reason=f"{item.reason}, at {', '.join(first)} and {last}")


def _is_same_code(before: Graph, after: Graph) -> bool:
    """Return whether two lazy graphs of one line are the same code.

    They are if their stacks are equal, or if only the line differs at which the outermost function
    goes on, and they have as many inputs and outputs.
    """
    if after.cause not in LAZY or after.where == NOWHERE:
        return False
    if (before.cause, before.where) != (after.cause, after.where):
        return False
    code = after.where.code
    if after.cause == "access" and sum(len(pattern.findall(code)) for pattern, _ in READERS) > 1:
        return False  # a line that reads several values
    if before.stack == after.stack:
        return True
    outermost = {(lazy.stack[0].file, lazy.stack[0].function) for lazy in (before, after)}
    same_numbers = (before.inputs, before.outputs) == (after.inputs, after.outputs)
    return len(outermost) == 1 and before.stack[1:] == after.stack[1:] and same_numbers


def _difference(before: Graph, after: Graph) -> str:
    numbers = [
        f"{now} {what}, {was} before"
        for what in ("inputs", "outputs")
        if (now := getattr(after, what)) != (was := getattr(before, what))
    ]
    return " and ".join(numbers) or "as many inputs and outputs as before"
