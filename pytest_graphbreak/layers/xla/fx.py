"""Reads an FX graph that torch_xla lowers: its place, its cuts, its inputs.

torch_xla's bridge (torch_xla/_dynamo/dynamo_bridge.py) runs each node of the graph once, to find
those that XLA cannot take: a ``Cut`` at each. It puts the rest into partitions (``fused_0``,
``fused_1``, ...), and lowers each ``Piece`` to one xla graph::

    y = x * 2            Piece, nodes 0 to 1
    h = torch.histc(y)   Cut, node 2: aten::histc runs on the CPU
    return h + 1         Piece, nodes 3 to 4

``bridge`` and ``unbridged`` read everything here from live objects while that goes on, and keep it
as text; ``explain`` makes reasons and places of it.

First what is kept (``FxGraph``, its ``Cut`` and ``Piece``), then the functions that read it, and at
the end why a graph was compiled again (``change``, ``new_sizes``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from pytest_graphbreak.layers.xla import private as native
from pytest_graphbreak.layers.xla.naming import (
    Compiled,
    common_module,
    input_names,
    is_input,
    module_path,
    op_name,
)
from pytest_graphbreak.model.items import NOWHERE, Frame
from pytest_graphbreak.model.stacks import Line, read

MOVED: Final = "a tensor was moved to the CPU"
_MOVES: Final = ("aten::_to_copy", "aten::to", "cpu", "to")
"""The operators and methods by which a tensor is moved."""

Stack = tuple[Line, ...]
"""The frames of a node's code, outermost first, as Dynamo wrote them down."""


class Cut(Struct, eq=False):
    """A node that XLA could not take."""

    position: int
    """Its place in the order of the graph."""
    reason: str
    stack: Stack = ()
    module: str | None = None
    """The path of the nn.Module that it is in: ``blocks.0.linear``."""
    makers: tuple[Stack, ...] = ()
    """The stacks of the code that made what XLA could not take, the nearest first: the line that
    somebody wrote belongs to the reason."""


_position = attrgetter("position")


class FxGraph(Struct, eq=False):
    """An FX graph that reached the bridge."""

    source: str = ""
    """The compile id of the graph of Dynamo's that it was made from, ``0/1``; empty if unknown."""
    stack: Stack = ()
    """The stack of its first node."""
    where: Frame = NOWHERE
    """The place of Dynamo's graph, in a log, where the lines of the nodes are not known."""
    module: str | None = None
    """The path of the nn.Module that all of its nodes are in."""
    backward: bool = False
    change: str = ""
    """Why it was compiled again; empty for the first of its frame."""
    pending: tuple[str, ...] = ()
    """The names of inputs that waited to be computed when it was called."""
    cuts: list[Cut] = []
    positions: dict[str, int] = {}
    """The places of its nodes in their order, by their names."""
    inputs: dict[str, str] = {}
    """The names of its inputs in the user's code, in their order, by the names of their nodes."""
    inputs_settled: bool = False
    """Whether the bridge is done with its inputs."""

    @property
    def names(self) -> tuple[str, ...]:
        """Its inputs' names alone."""
        return tuple(self.inputs.values())

    def input(self, node: str) -> str:
        """Return the name in the user's code of the input that this node represents."""
        return self.inputs.get(node, f"`{node}`")


class PieceInput(NamedTuple):
    """An argument of a piece, by name. ``is_made_inside``: by another piece of its graph."""

    name: str
    is_made_inside: bool = False


class Piece(Struct, eq=False):
    """A partition of an FX graph, or the whole: ``first`` to ``last`` in the order of its nodes.

    With ten nodes and a cut at node 4 there are the pieces 0 to 3 and 5 to 9.
    """

    fx: FxGraph
    """The graph that it is a piece of."""
    first: int = 0
    last: int = 0
    ops: int | None = None
    """How many of its nodes are calls; None in a log."""
    inputs: tuple[PieceInput, ...] = ()

    def cut_after(self) -> Cut | None:
        """Return the node that ended this piece; for the last piece the one before it."""
        after = [cut for cut in self.fx.cuts if cut.position > self.last]
        return min(after, key=_position) if after else self.cut_before()

    def cut_before(self) -> Cut | None:
        """Return the node whose result this piece takes; for the first piece the one after it."""
        before = [cut for cut in self.fx.cuts if cut.position < self.first]
        if before:
            return max(before, key=_position)
        return min(self.fx.cuts, key=_position, default=None)


def describe(gm: Any, args: Sequence[Any], compiled: Compiled | None) -> FxGraph:
    """Return what can be said of a graph module before the bridge lowers it.

    ``compiled`` is the graph of Dynamo's that it was made from, by which its inputs have names.
    """
    nodes = list(gm.graph.nodes)
    names = input_names(nodes, compiled)
    calls = [node for node in nodes if node.op.startswith("call_")]
    stacks = (stack for stack in map(node_stack, calls) if stack)
    return FxGraph(
        source=compiled.id if compiled else "",
        stack=_written_frames(next(stacks, ()), compiled),
        module=common_module(calls),
        backward=any(node.name.startswith("tangents") for node in nodes if is_input(node)),
        pending=tuple(pending_inputs(args, names)),
        positions={node.name: position for position, node in enumerate(nodes)},
        # Inputs are recognised by name: a backend may have put nodes of its own between them.
        inputs=dict(zip((node.name for node in nodes if is_input(node)), names, strict=True)),
    )


def _written_frames(stack: Stack, compiled: Compiled | None) -> Stack:
    """Return the frames from the function that somebody wrote inwards, without decorators'."""
    written = compiled.written if compiled else None
    for number, frame in enumerate(stack):
        if (frame.file, frame.name) == written:
            return stack[number:]
    return stack


def shape_env(gm: Any) -> Any:
    """Return the ``ShapeEnv`` that Dynamo made for this compilation; None if it is not shown."""
    for node in gm.graph.nodes:
        # Dynamo's own graphs have ``example_value``; those of AOTAutograd and of an export ``val``.
        value = node.meta.get("val", node.meta.get("example_value"))
        mode = getattr(value, "fake_mode", None)
        if mode is not None:
            return mode.shape_env
    return None


def node_stack(node: Any) -> Stack:
    """Return the user's frames that made a node."""
    return read(node.meta.get("stack_trace") or "")


def pending_inputs(args: Sequence[Any], names: Sequence[str]) -> Iterator[str]:
    """Yield the device arguments that wait to be computed, by name. Computes nothing."""
    on_xla = [position for position, arg in enumerate(args) if on_device(arg)]
    check = native.function("_check_tensor_need_materialization")
    for position, is_pending in zip(on_xla, check([args[at] for at in on_xla]), strict=True):
        if is_pending:
            yield names[position] if position < len(names) else f"input {position}"


def describe_piece(gm: Any, fx: FxGraph) -> Piece:
    """Return the piece for a partition, with its place in its graph."""
    nodes = list(gm.graph.nodes)
    calls = [node for node in nodes if node.op.startswith("call_")]
    positions = [fx.positions[node.name] for node in calls if node.name in fx.positions]
    return Piece(
        fx,
        first=min(positions, default=0),
        last=max(positions, default=0),
        ops=len(calls),
        inputs=tuple(
            PieceInput(fx.input(node.name), is_made_inside=node.name not in fx.inputs)
            for node in nodes
            if is_input(node)
        ),
    )


def describe_cut(interpreter: Any, node: Any, ops: Iterable[str], fx: FxGraph) -> Cut | None:
    """Return why the bridge leaves a node out; None for one that uses no device tensor.

    ``interpreter`` is the bridge's, which has run the nodes before this one and has their results
    in ``env``. ``ops`` are the aten ops that ran on the CPU in the node. The first of these reasons
    that holds::

        aten::histc runs on the CPU                there were such ops
        CPU tensor of shape [3] from `mask`        an operand is on the host
        a tensor was moved to the CPU              the node is x.cpu(), or x.to(...)
        the result of aten::foo is a CPU tensor    none of these
    """
    operands = {item: interpreter.env.get(item) for item in node.all_input_nodes}
    if not any(on_device(tensor) for value in operands.values() for tensor in tensors(value)):
        return None
    if ops:
        return cpu_op(node, ops, fx)
    on_host = [
        (item, tensor)
        for item, value in operands.items()
        for tensor in tensors(value)
        if not on_device(tensor)
    ]
    makers: tuple[Stack, ...] = ()
    if on_host:
        reason, makers = _host_operand(*on_host[0], fx)
    else:
        name = op_name(node)
        moved = name in _MOVES
        reason = MOVED if moved else f"the result of {name} is a CPU tensor"
    return replace(_cut(node, reason, fx), makers=makers)


def _cut(node: Any, reason: str, fx: FxGraph) -> Cut:
    return Cut(
        fx.positions.get(node.name, 0), reason, stack=node_stack(node), module=module_path(node)
    )


def cpu_op(node: Any, ops: Iterable[str], fx: FxGraph) -> Cut:
    """Return the cut at a node whose aten ops, or some of them, run on the CPU."""
    return _cut(node, runs_on_cpu(ops), fx)


def cut_at(node: Any, ops: Iterable[str], fx: FxGraph) -> Cut:
    """Return the cut at a node that needed a value: by an op on the CPU, or by a read."""
    return _cut(node, runs_on_cpu(ops) if ops else f"{op_name(node)} reads a value", fx)


def runs_on_cpu(ops: Iterable[str]) -> str:
    """Return ``aten::histc runs on the CPU``."""
    names = sorted(ops)
    return f"{' and '.join(names)} {'runs' if len(names) == 1 else 'run'} on the CPU"


def find_op(gm: Any, ops: Iterable[str]) -> Any:
    """Return the first node of a graph that calls one of these ops, such as ``aten::histc``."""
    names = {op.split(".")[0] for op in ops}
    for node in gm.graph.nodes:
        if node.op == "call_function" and op_name(node) in names:
            return node
    return None


def tensors(value: Any) -> Iterator[Any]:
    """Yield the tensors in an argument or a result: itself, or what is in a list, tuple or dict."""
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors(item)
    elif isinstance(value, Mapping):
        yield from tensors(list(value.values()))
    elif hasattr(value, "device") and hasattr(value, "dtype"):
        yield value


def on_device(value: Any) -> bool:
    return getattr(getattr(value, "device", None), "type", None) == "xla"


def _host_operand(node: Any, tensor: Any, fx: FxGraph) -> tuple[str, tuple[Stack, ...]]:
    """Describe a CPU tensor among the operands of a node; return the code that made it, too.

    It is followed back by the first operand of each node. Where that leads to an input of the
    graph, the input's name says enough; else the stacks of the node and of the origin are returned.
    """
    what = f"CPU tensor of shape {list(tensor.shape)}"
    origin = node
    while not is_input(origin) and origin.all_input_nodes:
        origin = origin.all_input_nodes[0]
    if is_input(origin):
        return f"{what} from {fx.input(origin.name)}", ()
    return what, tuple(stack for stack in (node_stack(node), node_stack(origin)) if stack)


# Why a graph was compiled again: what differs from the graph before, in a user's words.


class Signature(Struct, frozen=True):
    """The parts of a graph that are compared to say why it was compiled again."""

    inputs: tuple[tuple[str, str, tuple[int, ...]], ...]
    """The name, dtype and shape of each tensor among the arguments."""
    numbers: tuple[tuple[str, float], ...]
    """The op and value of each Python number in the graph."""


def signature(gm: Any, args: Sequence[Any], names: Sequence[str]) -> Signature:
    inputs = tuple(
        (name, str(arg.dtype).removeprefix("torch."), tuple(arg.shape))
        for name, arg in zip(names, args, strict=False)
        if hasattr(arg, "dtype")
    )
    numbers = tuple(
        (op_name(node), arg)
        for node in gm.graph.nodes
        if node.op == "call_function"
        for arg in node.args
        if _number(arg)
    )
    return Signature(inputs, numbers)


def change(before: Signature | None, now: Signature) -> str:
    """Return what differs from the graph compiled before, in a user's words."""
    if before is None:
        return "compiled again"
    if len(before.inputs) == len(now.inputs):
        for (name, dtype, shape), (_, was_dtype, was_shape) in zip(
            now.inputs, before.inputs, strict=True
        ):
            if shape != was_shape:
                return f"{name} went from shape {list(was_shape)} to {list(shape)}"
            if dtype != was_dtype:
                return f"{name} went from {was_dtype} to {dtype}"
    else:
        return f"it takes {len(now.inputs)} tensors, and took {len(before.inputs)}"
    if len(before.numbers) == len(now.numbers):
        for (op, value), (was_op, was) in zip(now.numbers, before.numbers, strict=True):
            if op == was_op and value != was:
                return f"the number in {op} went from {was} to {value}, which is a constant here"
    return "compiled again"


def new_sizes(piece: Piece, args: Sequence[Any], before: tuple[Any, ...] | None) -> str:
    """Return why a graph with dynamic shapes was lowered again, from its Python numbers.

    ``args`` are the arguments now; ``before`` are the numbers among the arguments of the last time,
    None if they are not known.
    """
    names = [argument.name for argument in piece.inputs]
    after = [(name, arg) for name, arg in zip(names, args, strict=False) if _number(arg)]
    if before is None or len(before) != len(after):
        return "lowered again for new sizes"
    changes = [
        f"{name} went from {old} to {new}"
        for old, (name, new) in zip(before, after, strict=True)
        if old != new
    ]
    return "; ".join(changes) or "lowered again since the sharding of an input changed"


def _number(value: Any) -> bool:
    """Return whether a value is a Python number, as sizes are."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)
