"""Explains the graphs of a window, and finds those that one lazy line compiled again, and why.

A graph of lazy tensors has no guard: it is compiled again where a shape, a type or a constant
differs, and what torch_xla says of both is all that tells them apart.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace as replace_graph

from pytest_graphbreak.layers import arguments, origins
from pytest_graphbreak.layers.xla.events import Event
from pytest_graphbreak.layers.xla.explain import LAZY, READERS, graph
from pytest_graphbreak.layers.xla.hlo import (
    HloChange,
    Instruction,
    difference,
    read,
    reshapes_inputs,
)
from pytest_graphbreak.model import stacks
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import NOWHERE, Frame, Graph
from pytest_graphbreak.model.stacks import Line

_Hlo = tuple[Sequence[Instruction], Sequence[Instruction]]
"""The instructions of two graphs, the earlier first."""
_DEFINED: Final = re.compile(r" {0,4}def ([a-z]\w{0,200})\(")


def explain(
    events: Sequence[Event], places: Places
) -> tuple[list[Graph], dict[str, tuple[Frame, Frame]]]:
    """Return one graph for each compilation of a window, in order, named by its number.

    Also returns, for each graph that one lazy line compiled again, the line that made the
    difference, or else one that differs from step to step.
    """
    graphs = [graph(str(number), event, places) for number, event in enumerate(events)]
    found = [*graphs]
    made: dict[str, tuple[Frame, Frame]] = {}
    for number, one in enumerate(graphs):
        same = (other for other in range(number - 1, -1, -1) if _again(graphs[other], one))
        if (last := next(same, None)) is not None:
            hlo = read(events[last].pending), read(events[number].pending)
            what, guard = _difference(events[last], events[number], hlo, places)
            counts = guard != NOWHERE and not reshapes_inputs(*hlo)
            varying = _varying(one, events[number], places, counts=counts)
            made[one.name] = guard, varying
            reason = f"{what}, and {one.reason} compiles its graph again"
            found[number] = replace_graph(one, cause="recompile", reason=reason)
    return [_beside(one, graphs) for one in found], made


def _beside(one: Graph, graphs: Sequence[Graph]) -> Graph:
    """Return a graph, naming other lines with the same text: a baseline cannot distinguish them."""
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
    """Return whether two lazy graphs of one line are the same code.

    They are if their stacks are equal, or if they have as many inputs and outputs.
    """
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


def _difference(before: Event, after: Event, hlo: _Hlo, places: Places) -> tuple[str, Frame]:
    """Return what differs in a lazy graph from the last one, and the line that made it."""
    if found := difference(*hlo, lambda made: _rank(made, places)):
        return found.words, _changed(found, hlo[1], places)
    numbers = [
        f"{now} {what}, {was} before"
        for what in ("inputs", "outputs")
        if (now := getattr(after.report, what, None)) != (was := getattr(before.report, what, None))
    ]
    return " and ".join(numbers) or "a shape, a type or a constant differs", NOWHERE


def _rank(made: tuple[str, int] | None, places: Places) -> int:
    """Return how near a line is to the user's code: a test's, a model's, torch's, not known."""
    if made is None:
        return 3
    if not places.is_user(made[0]):
        return 2
    return int(arguments.is_library(made[0]))


def _changed(change: HloChange, hlo: Sequence[Instruction], places: Places) -> Frame:
    """Return the user's line of an instruction; if torch made it, the line that calls torch."""
    if change.at is None or change.at.made is None:
        return NOWHERE
    file, number = change.at.made
    if places.is_user(file):
        return places.frame(file, number)
    users = [one.made for one in hlo if one.made and places.is_user(one.made[0])]
    functions = {(file, places.frame(file, line).function): line for file, line in users}
    # The function that holds the instruction, else one of its file: SGD.step() runs others.
    called = (places.frame(file, number).function.rpartition(".")[2], *_defined(file, places))
    for name in dict.fromkeys(called):
        for (near, function), line in functions.items():
            if found := origins.calling(name, Line(near, line, function), places.lines):
                return places.frame(*found)
    return NOWHERE


def _defined(file: str, places: Places) -> list[str]:
    """Return the names of the functions and methods that others may call in a file."""
    found = (_DEFINED.match(line) for line in places.lines(file))
    return [name[1] for name in found if name]


def _varying(graph: Graph, event: Event, places: Places, *, counts: bool) -> Frame:
    """Return the line that differs from step to step of the loop that computes a lazy graph.

    ``counts``: the line that made the difference is known, and one is added only if it depends on
    the number of the step.
    """
    frames = event.report.frames if event.report else event.stack
    callers = stacks.since_test(list(reversed(frames)))
    users = [line for line in callers if places.is_user(line.file)]
    line = origins.step(users, places.lines, reads=graph.cause == "access", counts=counts)
    return places.frame(*line) if line else NOWHERE
