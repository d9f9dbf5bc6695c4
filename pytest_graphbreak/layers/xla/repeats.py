"""The graphs of a window, explained: also which of them one lazy line compiled again, and why.

A graph of lazy tensors has no guard: it is compiled again where a shape, a type or a constant
differs, and what torch_xla says of both is all that tells them apart.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from msgspec.structs import replace as replace_graph

from pytest_graphbreak.layers import origins
from pytest_graphbreak.layers.xla import ir
from pytest_graphbreak.layers.xla.events import Event
from pytest_graphbreak.layers.xla.explain import LAZY, READERS, graph
from pytest_graphbreak.model import stacks
from pytest_graphbreak.model.places import Naming
from pytest_graphbreak.model.record import NOWHERE, Frame, Graph
from pytest_graphbreak.model.stacks import Line


def explain(
    events: Sequence[Event], places: Naming
) -> tuple[list[Graph], dict[str, tuple[Frame, Frame]]]:
    """One graph for each compilation of a window, in order, named by its number.

    With them, of each graph that one lazy line compiled again, the line that made the difference,
    or else one that differs from step to step.
    """
    graphs = [graph(str(number), event, places) for number, event in enumerate(events)]
    found = [*graphs]
    made: dict[str, tuple[Frame, Frame]] = {}
    for number, one in enumerate(graphs):
        same = (other for other in range(number - 1, -1, -1) if _again(graphs[other], one))
        if (last := next(same, None)) is not None:
            what, guard = _difference(events[last], events[number], places)
            varying = _varying(one, events[number], places) if guard == NOWHERE else NOWHERE
            made[one.name] = guard, varying
            reason = f"{what}, and {one.reason} compiles its graph again"
            found[number] = replace_graph(one, cause="recompile", reason=reason)
    return [_beside(one, graphs) for one in found], made


def _beside(one: Graph, graphs: Sequence[Graph]) -> Graph:
    """A graph of a line whose text occurs elsewhere in its function, too: a baseline knows both."""
    lines = {
        other.where.line
        for other in graphs
        if other.cause == one.cause in LAZY and other.where.key == one.where.key
    }
    if others := sorted(lines - {one.where.line}):
        also = ", ".join(f"{one.where.file}:{line}" for line in others)
        return replace_graph(one, reason=f"{one.reason}, as at {also}")
    return one


def _again(before: Graph, after: Graph) -> bool:
    """Whether two lazy graphs of one line are the same code: called alike, or of as many arrays."""
    lazy = before.cause == after.cause and after.cause in LAZY and after.where != NOWHERE
    if not lazy or before.where != after.where:
        return False
    if after.cause == "access" and sum(len(p.findall(after.where.code)) for p, _ in READERS) > 1:
        return False  # a line that reads several values
    if before.stack == after.stack:
        return True
    outer = [(frame.file, frame.function) for one in (before, after) for frame in one.stack[:1]]
    alike = (before.inputs, before.outputs) == (after.inputs, after.outputs)
    return alike and before.stack[1:] == after.stack[1:] and len(set(outer)) == 1


def _difference(before: Event, after: Event, places: Naming) -> tuple[str, Frame]:
    """What of a lazy graph differs from the last one, and the line that made it."""
    if found := ir.difference(before.pending, after.pending):
        return found.words, _changed(found, places)
    numbers = [
        f"{now} {what}, {was} before"
        for what in ("inputs", "outputs")
        if (now := getattr(after.report, what, None)) != (was := getattr(before.report, what, None))
    ]
    return " and ".join(numbers) or "a shape, a type or a constant differs", NOWHERE


def _changed(change: ir.IrChange, places: Naming) -> Frame:
    """The user's line of an operation; where torch made it, the line that calls that function."""
    if change.node is None or change.node.made is None:
        return NOWHERE
    if line := _made(change.node, places):
        return places.frame(*line)
    near = (line for node in change.near if (line := _made(node, places)))
    if (line := next(near, None)) is not None:
        line = origins.calling(change.node.made[2], line, places.lines)
    return places.frame(*line) if line else NOWHERE


def _made(node: ir.IrNode, places: Naming) -> Line | None:
    """The user's line that made an operation: torch_xla knows its file without the directory."""
    if node.made is None:
        return None
    file, line, function = node.made
    paths = {
        path
        for module in list(sys.modules.values())
        if (path := getattr(module, "__file__", None)) and os.path.basename(path) == file
    }
    is_users = len(paths) == 1 and all(map(places.is_user, paths))
    return Line(paths.pop(), line, function) if is_users else None


def _varying(graph: Graph, event: Event, places: Naming) -> Frame:
    """The line that differs from step to step of the loop that a lazy graph is computed in."""
    frames = event.report.frames if event.report else event.stack
    callers = stacks.since_test(list(reversed(frames)))
    users = [line for line in callers if places.is_user(line.file)]
    line = origins.step(users, places.lines, reads=graph.cause == "access")
    return places.frame(*line) if line else NOWHERE
