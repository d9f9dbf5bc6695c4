"""FX graphs that a backend runs by itself, without torch_xla's bridge.

Such a backend (tt_torch's legacy flow) calls the graph module, which only notes
its operations, and then has torch_xla compute the results, by
``_xla_sync_multi`` or ``torch_xla.sync()``. What is compiled by that is the FX
graph, and no sync of the user's. So a graph module of Dynamo's that is run is
remembered, with the function that ran it: what that function then syncs is the
graph. What is compiled before it has come to its end had to be computed for one
of its nodes.
"""

from __future__ import annotations

import linecache
import re
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import CodeType, FrameType
from typing import Any

from pytest_graphbreak.observers import xla_again, xla_fx
from pytest_graphbreak.observers.xla_events import Context, Event, Recorder
from pytest_graphbreak.observers.xla_fx import Cut, FxGraph, Piece

_ASSIGNED = re.compile(r"\s*(?P<name>\w+)(?::.*?)? = ")
"""A line of the code that torch.fx writes for a graph: it begins with the name of its node."""
_CALLS = ("fx/graph_module.py", "fx/_lazy_graph_module.py", "nn/modules/module.py")
"""Between who calls a graph module and the module."""
_WRITTEN = "<eval_with_key>"
_LOWERED = "optimized_mod"
"""What the bridge puts into a graph in place of each part that it lowered."""


@dataclass(slots=True, eq=False)
class Run:
    """One run of a graph. ``frame`` and ``code`` are of the function that runs it.

    ``open``: where its last node was is not known.
    """

    graph: FxGraph
    module: weakref.ref[Any]
    frame: int
    code: CodeType
    pending: tuple[str, ...]
    numbers: tuple[Any, ...]
    open: bool = False

    @property
    def within(self) -> tuple[str, str]:
        return self.code.co_filename, self.code.co_name


@dataclass(slots=True, eq=False)
class _Known:
    """A graph module of Dynamo's, and how it was lowered last."""

    graph: FxGraph
    piece: Piece
    last: Run | None = None


class Lazy:
    """The hooks around graph modules that are run, and around what computes their results.

    ``describe`` gives the FX graph of a module, None if it is not of Dynamo's
    making; ``busy`` says that the bridge is what runs it.
    """

    def __init__(
        self,
        recorder: Recorder,
        describe: Callable[[Any, Sequence[Any]], FxGraph | None],
        busy: Callable[[Any], bool],
    ) -> None:
        self._recorder = recorder
        self._describe = describe
        self._busy = busy
        self._local = threading.local()
        self._modules: weakref.WeakKeyDictionary[Any, _Known | None] = weakref.WeakKeyDictionary()

    # _WrappedCall.__call__(self, module, *inputs): somebody calls a graph module.

    def called(self, args: tuple[Any, ...]) -> Run | None:
        caller = caller_of_ours()
        while caller is not None and caller.f_code.co_filename.endswith(_CALLS):
            caller = caller.f_back
        self._local.running = run = self._begin(args[1], args[2:], caller)
        return run

    def returned(self, run: Run | None, result: Any) -> None:
        if run is not None:
            self._local.running = None
            self._noted(run)

    # Graph.process_inputs(self, *inputs): Interpreter.run begins. That one is not watched
    # itself, since Dynamo names it where it meets it.

    def interpreted(self, args: tuple[Any, ...]) -> Run | None:
        caller = caller_of_ours()
        interpreter: Any = caller.f_locals.get("self") if caller is not None else None
        if not hasattr(interpreter, "run_node"):
            return None
        while caller is not None and caller.f_locals.get("self") is interpreter:
            caller = caller.f_back
        return self._begin(interpreter.module, args[1:], caller)

    def interpreting(self, run: Run | None, result: Any) -> None:
        if run is not None:
            run.open = True
            self._local.run = run

    def _noted(self, run: Run) -> None:
        """The graph is noted. What was compiled meanwhile was needed by one of its nodes."""
        run.open = False
        self._local.run = run
        start = len(self._recorder.events)
        self._recorder.quick(Context("cut", run.graph, within=run.within))
        module = run.module()
        for event in self._recorder.events[start:]:
            if event.context is not None and module is not None:
                event.context.cut = self._cut(event, module, run.graph)

    # _xla_sync_multi(...), _xla_step_marker(...): what was noted is computed.

    def settling(self, caller: FrameType | None) -> Run | None:
        run: Run | None = getattr(self._local, "run", None)
        while run is not None and caller is not None:
            if id(caller) == run.frame and caller.f_code is run.code:
                if run.open:
                    self._noted(run)
                self._recorder.quick()
                return run
            caller = caller.f_back
        return None

    def settled(self, run: Run) -> None:
        module = run.module()
        known = self._modules.get(module) if module is not None else None
        if known is None:
            return
        context = Context("lazy", run.graph, known.piece, within=run.within)
        if known.last is not None:
            context = _again(context, known.last, run)
        start = len(self._recorder.events)
        self._recorder.quick(context)
        if len(self._recorder.events) > start:
            known.last = run

    def stepping(self, args: tuple[Any, ...]) -> Run | None:
        return self.settling(caller_of_ours())

    def stepped(self, run: Run | None, result: Any) -> None:
        if run is not None:
            self.settled(run)

    def _begin(self, module: Any, inputs: Sequence[Any], caller: FrameType | None) -> Run | None:
        if getattr(self._local, "running", None) is not None or self._busy(module):
            return None
        if _is_tracing() or not any(map(_computed, inputs)):
            return None
        known = self._know(module, inputs)
        if known is None or caller is None:
            return None
        self._recorder.quick()
        pending = tuple(xla_fx.pending_inputs(inputs, known.graph.names))
        numbers = tuple(value for value in inputs if type(value) in (int, float))
        ref = weakref.ref(module)
        return Run(known.graph, ref, id(caller), caller.f_code, pending, numbers)

    def _know(self, module: Any, inputs: Sequence[Any]) -> _Known | None:
        if module not in self._modules:
            targets = (getattr(node.target, "__name__", "") for node in module.graph.nodes)
            graph = None if _LOWERED in targets else self._describe(module, inputs)
            piece = xla_fx.describe_piece(module, graph) if graph else None
            self._modules[module] = _Known(graph, piece) if graph and piece else None
        return self._modules[module]

    def _cut(self, event: Event, module: Any, graph: FxGraph) -> Cut | None:
        """The node that needed a value; each node is one cut, however often it is run."""
        node = _node(event, module) or xla_fx.find_op(module, event.fallbacks)
        if node is None:
            return None
        position = graph.positions.get(node.name, 0)
        for cut in graph.cuts:
            if cut.position == position:
                return cut
        cut = xla_fx.cut_at(node, event.fallbacks, graph)
        graph.cuts.append(cut)
        return cut


def caller_of_ours() -> FrameType | None:
    """The frame that called the function that is watched, from inside a hook."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals.get("__package__") == __package__:
        frame = frame.f_back
    return frame


def _again(context: Context, before: Run, now: Run) -> Context:
    """The same graph is lowered once more: what is different from the last time."""
    assert context.piece is not None
    if now.numbers != before.numbers:
        change = xla_again.new_sizes(context.piece, now.numbers, before.numbers)
    elif now.pending and now.pending != before.pending:
        return replace(context, pending=tuple((name, False) for name in now.pending))
    elif before.pending and not now.pending:
        names = " and ".join(dict.fromkeys(before.pending))
        change = f"{names} was pending the last time, and is not now"
    else:
        change = "compiled again"
    return replace(context, change=change)


def _node(event: Event, module: Any) -> Any:
    """The node whose line of the written code is on the stack of a compilation."""
    for file, line, _ in event.report.frames if event.report else ():
        if file.startswith(_WRITTEN):
            found = _ASSIGNED.match(linecache.getline(file, line))
            name = found["name"] if found else ""
            return next((node for node in module.graph.nodes if node.name == name), None)
    return None


def _is_tracing() -> bool:
    """Whether Dynamo or what comes after it is at work: then a graph is not run but looked at."""
    from torch._guards import CompileContext

    return CompileContext.current_compile_id() is not None


def _computed(value: Any) -> bool:
    """Whether a value is a tensor on the device, and no stand-in for one."""
    torch = sys.modules["torch"]
    return type(value) in (torch.Tensor, torch.nn.Parameter) and xla_fx.on_device(value)
