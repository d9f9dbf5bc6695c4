"""Explains the graphs of a window, and finds those that one lazy line compiled again, and why.

A graph of lazy tensors has no guard: it is compiled again where a shape, a type or a constant
differs, and what torch_xla says of both is all that tells them apart.
"""

from __future__ import annotations

import gc
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import zip_longest
from typing import Any, Final, NamedTuple

from msgspec.structs import replace as replace_graph

from pytest_graphbreak.layers import origins
from pytest_graphbreak.layers.xla import private as native
from pytest_graphbreak.layers.xla.events import Event, Recorder, python_stack
from pytest_graphbreak.layers.xla.explain import LAZY, READERS, graph
from pytest_graphbreak.model import stacks
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import NOWHERE, Frame, Graph
from pytest_graphbreak.model.stacks import Line

# The work that lazy tensors wait for, as torch_xla prints it, and how two such graphs differ.
#
# torch_xla prints a line for each node, after the nodes that it needs
# (torch_xla/csrc/ir_dump_util.cpp of torch_xla 2.9), with the innermost line of Python once
# ``_set_ir_debug`` was called.

_NODE: Final = re.compile(
    r"^ {0,8}%\d{1,9} = (?P<type>\w{1,20})\[(?P<sizes>[^\]\n]{0,200})\]"
    r"\S{0,200} (?P<op>[\w:]{1,200})\("
)
_MADE: Final = re.compile(
    r" location=(?P<function>[^@\s]{1,300})@(?P<file>[^\n:]{1,300}):(?P<line>\d{1,9}),"
)
_INPUT: Final = "xla::device_data"
_LITTLE: Final = 4
"""The most pending tensors that are printed at each sync."""
_FEW: Final = 16
"""The most pending tensors that torch_xla prints one by one; of more it prints one text."""


class IrNode(NamedTuple):
    """An operation. ``shape`` is ``f32[3,8]``.

    ``made`` is the file name, the line and the function that made it, None if they are not known.
    """

    op: str
    shape: str
    made: tuple[str, int, str] | None = None


def read(text: str) -> tuple[IrNode, ...]:
    """Return the nodes of a graph, in the order in which they are computed."""
    found = []
    for line in text.split("\n"):
        if node := _NODE.match(line):
            made = _MADE.search(line, node.end())
            place = (made["file"], int(made["line"]), made["function"]) if made else None
            found.append(IrNode(node["op"], f"{node['type']}[{node['sizes']}]", place))
    return tuple(found)


class IrChange(NamedTuple):
    """The difference of a graph from the one before, in words, and the operation that made it.

    ``near`` are the operations before it, the nearest first, and those after it.
    """

    words: str
    node: IrNode | None = None
    near: tuple[IrNode, ...] = ()


def difference(before: str, after: str) -> IrChange | None:
    """Compare what torch_xla printed of two graphs; return None if one was not printed.

    Operations are compared first: what lies on the device and is only held is printed, too.
    """
    old_nodes, new_nodes = read(before), read(after)
    if not old_nodes or not new_nodes:
        return None
    made = [[node for node in nodes if node.op != _INPUT] for nodes in (old_nodes, new_nodes)]
    for number, (old, new) in enumerate(zip_longest(*made)):
        if old is None or new is None or old.op != new.op:
            counts = f"{len(made[1])} operations, {len(made[0])} before"
            if new is None:
                return IrChange(f"{counts}, {old.op} is gone")
            words = f"{counts}, {new.op} {new.shape} differs"
            return IrChange(words, new, (*made[1][number::-1], *made[1][number:]))
    if pairs := [(old, new) for old, new in zip(*made, strict=True) if old.shape != new.shape]:
        own = (pair for pair in pairs if pair[1].made and not _is_torchs(pair[1].made[0]))
        old, new = next(own, pairs[0])
        # Take the operation whose old shape was this one: it comes in now.
        old, new = next((pair for pair in pairs if pair[0].shape == new.shape), (old, new))
        return IrChange(f"{new.op} makes {new.shape}, made {old.shape}", new)
    inputs = [
        Counter(node.shape for node in nodes if node.op == _INPUT)
        for nodes in (old_nodes, new_nodes)
    ]
    for old_shape, new_shape in zip(inputs[0] - inputs[1], inputs[1] - inputs[0], strict=False):
        return IrChange(f"an input is {new_shape}, was {old_shape}")
    return IrChange("a constant or an attribute of an operation is another")


def _is_torchs(file: str) -> bool:
    """Return whether a file, known by its name only, is one of torch's modules."""
    return any(path.endswith(f"/{file}") for path in _torch_files())


def _torch_files() -> Iterator[str]:
    for name in ("torch.nn.functional", "torch.functional", "torch._tensor"):
        yield str(getattr(sys.modules.get(name), "__file__", ""))
    for name, module in list(sys.modules.items()):
        if name.startswith("torch.nn.modules."):
            yield str(getattr(module, "__file__", ""))


class StepGraphs:
    """The hook around ``_xla_step_marker``, by which ``torch_xla.sync()`` and steps compute.

    What is pending is printed if it is little, or if a compilation is to be expected: at the first
    sync of a line, and after one that compiled.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._compiled: dict[tuple[Line, ...], bool] = {}
        self._set = False

    def forget(self) -> None:
        """Forget all lines once no window is open."""
        self._compiled.clear()
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
        with suppress(Exception):  # this only explains
            pending = self._pending(str(args[0]), self._compiled.get(stack, True))
        return stack, len(self._recorder.events), pending

    def marked(self, token: tuple[tuple[Line, ...], int, str] | None, result: Any) -> None:
        if token is None:
            return
        stack, start, pending = token
        self._recorder.quick()
        made = self._recorder.events[start:]
        self._compiled[stack] = bool(made)
        for event in made:
            event.pending = pending

    def _pending(self, device: str, compiles: bool) -> str:
        """Return the graph of all that is pending on a device; empty if printing costs too much."""
        waits = native.function("_check_device_tensor_need_materialization")(device)
        count = sum(map(bool, waits))
        if not count or not (compiles or count <= _LITTLE):
            return ""
        binding: Any = native.binding()
        if not self._set and not binding._get_ir_debug():
            binding._set_ir_debug(True)
            self._set = True
        if count <= _FEW:
            return str(binding._xla_tensors_report(0, device))
        check = native.function("_check_tensor_need_materialization")
        torch = sys.modules["torch"]
        kinds = (torch.Tensor, torch.nn.Parameter)
        alive = [one for one in gc.get_objects() if type(one) in kinds and one.device.type == "xla"]
        pending = [one for one, waiting in zip(alive, check(alive), strict=True) if waiting]
        return str(binding._get_xla_tensors_text(pending))


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
            what, guard = _difference(events[last], events[number], places)
            varying = _varying(one, events[number], places) if guard == NOWHERE else NOWHERE
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


def _difference(before: Event, after: Event, places: Places) -> tuple[str, Frame]:
    """Return what differs in a lazy graph from the last one, and the line that made it."""
    if found := difference(before.pending, after.pending):
        return found.words, _changed(found, places)
    numbers = [
        f"{now} {what}, {was} before"
        for what in ("inputs", "outputs")
        if (now := getattr(after.report, what, None)) != (was := getattr(before.report, what, None))
    ]
    return " and ".join(numbers) or "a shape, a type or a constant differs", NOWHERE


def _changed(change: IrChange, places: Places) -> Frame:
    """Return the user's line of an operation; if torch made it, the line that calls torch."""
    if change.node is None or change.node.made is None:
        return NOWHERE
    if line := _made(change.node, places):
        return places.frame(*line)
    near = (line for node in change.near if (line := _made(node, places)))
    if (line := next(near, None)) is not None:
        line = origins.calling(change.node.made[2], line, places.lines)
    return places.frame(*line) if line else NOWHERE


def _made(node: IrNode, places: Places) -> Line | None:
    """Return the user's line that made an operation: its file is known without directory."""
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


def _varying(graph: Graph, event: Event, places: Places) -> Frame:
    """Return the line that differs from step to step of the loop that computes a lazy graph."""
    frames = event.report.frames if event.report else event.stack
    callers = stacks.since_test(list(reversed(frames)))
    users = [line for line in callers if places.is_user(line.file)]
    line = origins.step(users, places.lines, reads=graph.cause == "access")
    return places.frame(*line) if line else NOWHERE
