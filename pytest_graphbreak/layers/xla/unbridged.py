"""Follows FX graphs that a backend runs by itself, without torch_xla's bridge.

Such a backend (tt_torch's legacy flow) calls the graph module, which only notes its operations, and
then has torch_xla compute the results. What is compiled by that is the FX graph, and no sync of the
user's. So the last graph module of Dynamo's that was run is remembered, with the function that ran
it: what is compiled with that function on the stack belongs to the graph. While the module's own
code is on the stack too, one of its nodes needed what is compiled.

A node that XLA could not take is a ``Cut``, what lies between two is a ``Piece`` of the graph
(``fx``); a ``LoweringContext`` says to which of them a compilation belongs (``events``). Without
the bridge the whole graph is one piece.
"""

from __future__ import annotations

import linecache
import re
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from types import FrameType
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from pytest_graphbreak.layers.dynamo.private import compile_id
from pytest_graphbreak.layers.hooks import caller
from pytest_graphbreak.layers.xla import fx as xla_fx
from pytest_graphbreak.layers.xla import private as native
from pytest_graphbreak.layers.xla.events import LoweringContext, Recorder
from pytest_graphbreak.layers.xla.fx import Cut, FxGraph, Piece, PieceInput
from pytest_graphbreak.layers.xla.reports import CompileReport
from pytest_graphbreak.model.stacks import Line

_ASSIGNED = re.compile(r"\s*(?P<name>\w+)(?::.*?)? = ")
"""A line of the code that torch.fx writes for a graph: it begins with the name of its node."""
_CALLS = ("fx/graph_module.py", "fx/_lazy_graph_module.py", "nn/modules/module.py")
"""The files between the caller of a graph module and the module."""
_WRITTEN = "<eval_with_key>"
"""How the file of that code is named (torch/fx/graph_module.py)."""
_NOT_MET: Final = object()
"""Stands for the entry of a graph module that has none."""


class _Calls(threading.local):
    """How many graph modules this thread is calling: their written code calls others."""

    depth = 0


class _ModuleRun(Struct, eq=False):
    """A run of a graph module."""

    module: weakref.ref[Any]
    within: tuple[str, str]
    """The file and name of the function that runs it."""
    pending: tuple[str, ...]
    """The names of inputs that wait to be computed."""
    numbers: tuple[Any, ...]
    """The inputs that are Python numbers: sizes."""


class _LoweredModule(Struct, eq=False):
    """A graph module of Dynamo's: its graph as one piece, and the run that lowered it last."""

    piece: Piece
    last: _ModuleRun | None = None


class Unbridged:
    """The hooks around graph modules that are run, and the owners of compilations by stack.

    ``bridge`` makes one for the process. ``describe`` returns the FX graph of a module, None if
    Dynamo did not make it; ``is_bridged`` says whether the bridge runs it. The ``Recorder`` asks
    ``owner`` for each compilation that torch_xla reports.
    """

    def __init__(
        self,
        recorder: Recorder,
        describe: Callable[[Any, Sequence[Any]], FxGraph | None],
        is_bridged: Callable[[Any], bool],
    ) -> None:
        self._recorder = recorder
        self._describe = describe
        self._is_bridged = is_bridged
        self._calls = _Calls()
        self._modules: weakref.WeakKeyDictionary[Any, _LoweredModule | None] = (
            weakref.WeakKeyDictionary()
        )
        """What is known of each graph module::

            (no entry)        it was not called before (``_NOT_MET``)
            None              it is not followed: the bridge lowered it, or Dynamo did not make it
            _LoweredModule    it is followed
        """
        self._run: _ModuleRun | None = None
        """The last run of a module of Dynamo's. It may have ended: its graph is compiled later."""

    def forget(self) -> None:
        """Forget what ran. Modules stay: one that is alive may run in a later window."""
        self._run = None
        for lowered in [*self._modules.values()]:
            if lowered is not None:
                lowered.last = None
        self._calls = _Calls()  # an exception may have ended something half-way

    # _WrappedCall.__call__(self, module, *inputs): other code calls a graph module.

    def before_call(self, args: tuple[Any, ...]) -> None:
        """Begin a run of this module, unless it is a part of the module that calls it."""
        module, inputs = args[1], args[2:]
        self._calls.depth += 1
        is_not_followed = self._modules.get(module, _NOT_MET) is None
        if is_not_followed and self._run is None:  # no run begins with it, and there is none to end
            return
        frame = caller()
        while frame is not None and frame.f_code.co_filename.endswith(_CALLS):
            frame = frame.f_back
        is_written = frame is not None and frame.f_code.co_filename.startswith(_WRITTEN)
        is_part = is_written and self._calls.depth > 1
        if not is_part:
            self._begin_run(module, inputs, frame)

    def after_call(self, token: None, result: Any) -> None:
        self._calls.depth = max(0, self._calls.depth - 1)  # ``forget`` may have come in between

    # Interpreter.run(self, *args) of torch/fx/interpreter.py calls graph.process_inputs(*args), and
    # then run_node for each node. It has the module as ``self.module``, and is not watched itself,
    # since Dynamo uses its name where it meets it: so it is found as the caller.

    def before_interpret(self, args: tuple[Any, ...]) -> None:
        """Begin a run of the module of an interpreter, within what called the interpreter."""
        frame = caller()
        interpreter: Any = frame.f_locals.get("self") if frame is not None else None
        if not hasattr(interpreter, "run_node"):
            return
        while frame is not None and frame.f_locals.get("self") is interpreter:
            frame = frame.f_back  # a subclass may have a ``run`` of its own
        self._begin_run(interpreter.module, args[1:], frame)

    def owner(self, report: CompileReport, ops: Iterable[str]) -> LoweringContext | None:
        """Return the context of a compilation if it belongs to the graph that was run last."""
        run = self._run
        module = run.module() if run is not None else None
        lowered = self._modules.get(module) if module is not None else None
        if run is None or lowered is None:
            return None
        frames = _frames_within(report.frames, run.within)
        if frames is None or any(frame.file.endswith(native.BRIDGE_FILE) for frame in frames):
            return None
        piece, graph = lowered.piece, lowered.piece.fx
        if any(map(_runs_node, frames)):
            cut = _cut(frames, ops, module, graph)
            return LoweringContext("cut", graph, cut=cut, within=run.within)
        # Here the whole graph was compiled, and so it was in the run that is kept as the last.
        before, lowered.last = lowered.last, run
        context = LoweringContext("unbridged", graph, piece, within=run.within)
        return context if before is None else _context_of_repeat(context, piece, before, run)

    def _begin_run(self, module: Any, inputs: Sequence[Any], frame: FrameType | None) -> None:
        if frame is None or self._is_bridged(module) or _is_tracing():
            return
        if not any(map(_is_device_tensor, inputs)):
            return
        self._recorder.note_if_compiled()  # what was compiled before belongs to the run before
        self._run = None
        lowered = self._known_module(module, inputs)
        if lowered is None:
            return
        within = frame.f_code.co_filename, frame.f_code.co_name
        pending = tuple(xla_fx.pending_inputs(inputs, lowered.piece.fx.names))
        numbers = tuple(value for value in inputs if type(value) in (int, float))
        self._run = _ModuleRun(weakref.ref(module), within, pending, numbers)

    def _known_module(self, module: Any, inputs: Sequence[Any]) -> _LoweredModule | None:
        """Return what is known of a module, which is looked at the first time that it runs."""
        if module not in self._modules:
            targets = (getattr(node.target, "__name__", "") for node in module.graph.nodes)
            graph = None if native.LOWERED in targets else self._describe(module, inputs)
            self._modules[module] = (
                _LoweredModule(xla_fx.describe_piece(module, graph)) if graph else None
            )
        return self._modules[module]


def _runs_node(frame: Line) -> bool:
    """Return whether this frame is the code of a graph module, or of its interpreter."""
    return frame.file.startswith(_WRITTEN) or frame.name == "run_node"


def _frames_within(frames: Sequence[Line], within: tuple[str, str]) -> Sequence[Line] | None:
    """Return the frames inside of the function that runs a graph; None if it is not there."""
    for number, frame in enumerate(frames):
        if (frame.file, frame.name) == within:
            return frames[:number]
    return None


def _cut(frames: Sequence[Line], ops: Iterable[str], module: Any, graph: FxGraph) -> Cut | None:
    """Return the cut at the node that needed a value; one for each node, over all its runs."""
    node = _node(frames, module) or xla_fx.find_op(module, ops)
    if node is None:
        return None
    position = graph.positions.get(node.name, 0)
    for cut in graph.cuts:
        if cut.position == position:
            return cut
    cut = xla_fx.cut_at(node, ops, graph)
    graph.cuts.append(cut)
    return cut


def _context_of_repeat(
    context: LoweringContext, piece: Piece, before: _ModuleRun, after: _ModuleRun
) -> LoweringContext:
    """Return the context of a graph that is lowered again, with what differs from last time."""
    if after.numbers != before.numbers:
        change = xla_fx.new_sizes(piece, after.numbers, before.numbers)
    elif after.pending and after.pending != before.pending:
        return replace(context, pending=tuple(map(PieceInput, after.pending)))
    elif before.pending and not after.pending:
        names = " and ".join(dict.fromkeys(before.pending))
        change = f"{names} was pending the last time, and is not now"
    else:
        change = "compiled again"
    return replace(context, change=change)


def _node(frames: Sequence[Line], module: Any) -> Any:
    """Return the node whose line of the written code is on the stack of a compilation."""
    for frame in frames:
        if frame.file.startswith(_WRITTEN):
            match = _ASSIGNED.match(linecache.getline(frame.file, frame.line))
            name = match["name"] if match else ""
            return next((node for node in module.graph.nodes if node.name == name), None)
    return None


def _is_tracing() -> bool:
    """Return whether Dynamo or a later stage is at work: then a graph is traced, not run."""
    return compile_id() is not None


def _is_device_tensor(value: Any) -> bool:
    """Return whether a value is a tensor on the device, and no stand-in for one."""
    torch = sys.modules["torch"]
    return type(value) in (torch.Tensor, torch.nn.Parameter) and xla_fx.on_device(value)
