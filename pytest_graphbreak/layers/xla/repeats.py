"""Explains the graphs of a window, and finds those that one lazy line compiled again, and why.

A graph of lazy tensors has no guard: it is compiled again where a shape, a type or a constant
differs, and what torch_xla says of both is all that tells them apart.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from msgspec.structs import replace as replace_graph

from pytest_graphbreak.layers.xla import private as native
from pytest_graphbreak.layers.xla.events import Event, Recorder, python_stack
from pytest_graphbreak.layers.xla.explain import LAZY, READERS, graph
from pytest_graphbreak.layers.xla.hlo import (
    HloChange,
    Instruction,
    difference,
    read,
)
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import NOWHERE, Frame, Graph
from pytest_graphbreak.model.stacks import Line

_STEPS: Final = 4
"""How often the work of a line is printed, though the line did not compile before."""
_Hlo = tuple[Sequence[Instruction], Sequence[Instruction]]
"""The instructions of two graphs, the earlier first."""


class StepGraphs:
    """The hook around ``_xla_step_marker``, by which ``torch_xla.sync()`` and steps compute.

    The HLO of what is pending is kept if a compilation is to be expected: at the first syncs of a
    line, and after one that compiled.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._steps: Counter[tuple[Line, ...]] = Counter()
        self._set = False

    def forget(self) -> None:
        """Forget all lines once no window is open."""
        self._steps.clear()
        if self._set:
            self._set = False
            with suppress(Exception):
                native.binding()._set_ir_debug(False)

    # _xla_step_marker(device, devices, wait, reset_scope)

    def marking(self, args: tuple[Any, ...]) -> tuple[tuple[Line, ...], int, str] | None:
        stack = python_stack()
        if any(frame.file.endswith("/dynamo_bridge.py") for frame in stack):
            return None
        self._recorder.quick()
        pending = ""
        if self._steps[stack] < _STEPS:
            with suppress(Exception):  # this only explains
                pending = self._pending(str(args[0]))
        return stack, len(self._recorder.events), pending

    def marked(self, token: tuple[tuple[Line, ...], int, str] | None, result: Any) -> None:
        if token is None:
            return
        stack, start, pending = token
        self._recorder.quick()
        made = self._recorder.events[start:]
        self._steps[stack] = 0 if made else self._steps[stack] + 1
        for event in made:
            event.pending = pending

    def _pending(self, device: str) -> str:
        """Return the HLO of all that is pending on a device; empty if nothing is."""
        if not any(native.function("_check_device_tensor_need_materialization")(device)):
            return ""
        binding: Any = native.binding()
        if not self._set and not binding._get_ir_debug():
            binding._set_ir_debug(True)
            self._set = True
        check = native.function("_check_tensor_need_materialization")
        torch = sys.modules["torch"]
        kinds = (torch.Tensor, torch.nn.Parameter)
        alive = [one for one in gc.get_objects() if type(one) in kinds and one.device.type == "xla"]
        pending = [one for one, waiting in zip(alive, check(alive), strict=True) if waiting]
        return str(binding._get_xla_tensors_hlo(pending)) if pending else ""


def explain(events: Sequence[Event], places: Places) -> tuple[list[Graph], dict[str, Frame]]:
    """Return one graph for each compilation of a window, in order, named by its number.

    Also returns, for each graph that one lazy line compiled again, the line that made the
    difference, or ``NOWHERE``.
    """
    graphs = [graph(str(number), event, places) for number, event in enumerate(events)]
    found = [*graphs]
    made: dict[str, Frame] = {}
    for number, one in enumerate(graphs):
        same = (other for other in range(number - 1, -1, -1) if _again(graphs[other], one))
        if (last := next(same, None)) is not None:
            hlo = read(events[last].pending), read(events[number].pending)
            what, guard = _difference(events[last], events[number], hlo, places)
            made[one.name] = guard
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
        return found.words, _changed(found, places)
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
    return int("site-packages" in made[0].split("/"))


def _changed(change: HloChange, places: Places) -> Frame:
    """Return the line of an instruction, if it is the user's."""
    if change.at is None or change.at.made is None or not places.is_user(change.at.made[0]):
        return NOWHERE
    return places.frame(*change.at.made)
