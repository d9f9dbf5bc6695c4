"""The hooks around functions that Dynamo, torch_xla's bridge and autograd call.

The bridge (torch_xla/_dynamo/dynamo_bridge.py) has XLA compile an FX graph of Dynamo's. When a
function is compiled, these are called, in this order (torch_xla 2.9, and Tenstorrent's fork)::

    OutputGraph.compile_and_call_fx_graph      Dynamo has made an FX graph, and calls its backend
      extract_compiled_graph                   the bridge takes it, and settles its inputs
        UnsupportedNodesCollector.run_node     it tries each node: what XLA cannot take is cut out
        InputCollector.run_node                it runs all nodes again, for the pieces' inputs
        extract_graph_helper                   it lowers a piece: this makes the xla graph

and later, when the compiled function runs::

    extract_graph_helper                       only for sizes that it was not lowered for yet
    _xla_sync_multi                            inputs that are pending are computed first

With dynamic shapes the bridge tries no nodes, and lowers the whole graph.

The hooks describe what they see by classes of ``fx``: an ``FxGraph``, each ``Cut`` at a node that
XLA cannot take, and each ``Piece`` between two cuts. A ``LoweringContext`` (``events``) says what
the bridge is doing with them. What was compiled up to now is noted before a function and after it
(``Recorder.note_if_compiled``): so what compiles inside gets the context of that function, and what
compiled before it does not.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from pytest_graphbreak.layers.dynamo.frames import written_forward
from pytest_graphbreak.layers.dynamo.private import compile_id
from pytest_graphbreak.layers.hooks import caller
from pytest_graphbreak.layers.xla import fx as xla_fx
from pytest_graphbreak.layers.xla import private as native
from pytest_graphbreak.layers.xla.events import LoweringContext, Recorder, python_stack
from pytest_graphbreak.layers.xla.fx import FxGraph, Piece, PieceInput
from pytest_graphbreak.layers.xla.naming import Compiled, dynamo_name, source_name
from pytest_graphbreak.layers.xla.unbridged import Unbridged
from pytest_graphbreak.model.stacks import Line


class _OfThread(threading.local):
    """The FX graph that a thread is lowering: each thread begins with None, and sets its own."""

    graph: FxGraph | None = None


class Bridge:
    """The hooks, and what they know of the graphs that are alive.

    ``sensors`` makes one for the process and puts the hooks in: what ``before_x`` returns is the
    first argument of ``after_x``, None where ``before_x`` failed.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._of_thread = _OfThread()
        self._compiled: weakref.WeakKeyDictionary[Any, Compiled] = weakref.WeakKeyDictionary()
        """Dynamo's graphs, their ids and the names of their inputs (``naming``), by the
        ``ShapeEnv`` that each compilation has."""
        self._pieces: weakref.WeakKeyDictionary[Any, Piece] = weakref.WeakKeyDictionary()
        """The pieces that were lowered, by graph module."""
        self._signatures: dict[tuple[str, bool], xla_fx.Signature] = {}
        """What a later graph of the same frame is compared with (``fx.change``), by compile id, and
        whether it is the backward pass."""
        self.unbridged = Unbridged(
            recorder, describe=self._describe_compiled, is_bridged=self._is_bridged
        )
        recorder.owner = self.unbridged.owner  # asked first: a stack says more than the context

    def forget(self) -> None:
        """Forget graphs once no window is open: later windows do not compare with them."""
        self._signatures.clear()
        self._of_thread = _OfThread()  # an exception may have ended something half-way
        self.unbridged.forget()

    # OutputGraph.compile_and_call_fx_graph(self, tx, rv, root): Dynamo calls its backend.

    def before_compile(self, args: tuple[Any, ...]) -> Any:
        output = args[0]
        id = compile_id()
        if id is None:
            return None
        # AOTAutograd makes new graphs of this one; they have its ShapeEnv and no id in common.
        env = output.tracing_context.fake_mode.shape_env
        frame = output.root_tx
        code = written_forward(frame.f_code, frame.f_locals) if frame is not None else None
        written = (code.co_filename, code.co_name) if code is not None else None
        self._compiled[env] = Compiled(str(id), written=written)
        return output, env

    def after_compile(self, token: Any, result: Any) -> None:
        """Name the inputs that are left: Dynamo has dropped the unused ones by now."""
        if token is None or result is None:
            return
        output, env = token
        names = tuple(source_name(dynamo_name(arg.source)) for arg in output.graphargs)
        self._compiled[env] = replace(self._compiled[env], inputs=names)

    # extract_compiled_graph(xla_model, xla_args): one FX graph is lowered.

    def before_extract(self, args: tuple[Any, ...]) -> FxGraph | None:
        """Return what this thread was lowering before, to be put back after."""
        self._recorder.note_if_compiled()
        outer = self._of_thread.graph
        gm, inputs = args[:2]
        self._of_thread.graph = self._describe(gm, inputs, self._compiled_by_dynamo(gm))
        return outer

    def after_extract(self, outer: FxGraph | None, result: Any) -> None:
        graph = self._of_thread.graph
        if graph is not None:
            self._recorder.note_if_compiled(LoweringContext("inputs", graph))
        self._of_thread.graph = outer
        self._recorder.settle_counters()  # what was tried on the CPU explains no later graph

    def _describe(self, gm: Any, inputs: Sequence[Any], compiled: Compiled | None) -> FxGraph:
        graph = xla_fx.describe(gm, inputs, compiled)
        graph.change = self._change(gm, inputs, graph)
        return graph

    def _compiled_by_dynamo(self, gm: Any) -> Compiled | None:
        """Return the graph of Dynamo's that this one was made from, if any."""
        env = xla_fx.shape_env(gm)
        return self._compiled.get(env) if env is not None else None

    def _change(self, gm: Any, inputs: Any, graph: FxGraph) -> str:
        """Return why Dynamo compiled this graph again; empty for the first of its frame.

        A source is ``0/1`` for the second graph of frame 0: it is compared with ``0/0``.
        """
        frame, _, number = graph.source.rpartition("/")
        if not number.isdigit():
            return ""
        after = xla_fx.signature(gm, inputs, graph.names)
        self._signatures[graph.source, graph.backward] = after
        if number == "0":  # the first of its frame
            return ""
        before = f"{frame}/{int(number) - 1}"
        return xla_fx.change(self._signatures.get((before, graph.backward)), after)

    # For ``unbridged``: graphs that a backend runs itself.

    def _describe_compiled(self, gm: Any, inputs: Sequence[Any]) -> FxGraph | None:
        compiled = self._compiled_by_dynamo(gm)
        return self._describe(gm, inputs, compiled) if compiled is not None else None

    def _is_bridged(self, gm: Any) -> bool:
        """Return whether a graph is run by the bridge, which lowers it."""
        return self._of_thread.graph is not None or gm in self._pieces

    # extract_graph_helper(xla_model, cache): a piece becomes one xla graph. A compiled program
    # calls it again when it runs for sizes that it was not lowered for: then no FX graph is being
    # lowered. ``cache`` has the sizes that it was lowered for, the latest last.

    def before_lower(self, args: tuple[Any, ...]) -> tuple[LoweringContext, Any]:
        gm, cache = args[:2]
        graph = self._of_thread.graph
        self._recorder.note_if_compiled(LoweringContext("inputs", graph) if graph else None)
        piece = self._pieces.get(gm)
        change = ""
        if piece is None:
            piece = self._pieces[gm] = xla_fx.describe_piece(gm, graph or FxGraph())
        if graph is None:
            change = xla_fx.new_sizes(piece, gm.xla_args, next(reversed(cache), None))
        return LoweringContext("piece", piece.fx, piece, change=change), gm

    def after_lower(self, token: tuple[LoweringContext, Any] | None, result: Any) -> None:
        if token is None:
            return
        context, gm = token
        graph = context.graph
        start = len(self._recorder.events)
        self._recorder.note_if_compiled(context)
        if graph is None or graph.cuts:
            return
        for event in self._recorder.events[start:]:
            # With dynamic shapes the bridge tries no nodes. A node that runs on the CPU is seen
            # only here: it needed a value, and that was compiled without a call of the bridge's.
            is_of_node = event.report is not None and not event.report.is_of_bridge
            node = xla_fx.find_op(gm, event.fallbacks) if is_of_node else None
            if node is not None:
                graph.cuts.append(xla_fx.cpu_op(node, event.fallbacks, graph))

    # UnsupportedNodesCollector.run_node(self, node): the bridge tries whether XLA can take a node.

    def before_node(self, args: tuple[Any, ...]) -> tuple[Any, Any, int]:
        collector, node = args[:2]
        graph = self._of_thread.graph
        if graph is not None and not graph.inputs_settled:
            graph.inputs_settled = True
            self._recorder.note_if_compiled(LoweringContext("inputs", graph))
        # run_node appends to this list (torch_xla/_dynamo/dynamo_bridge.py of 2.9).
        return collector, node, len(collector._unsupported_nodes)

    def after_node(self, token: tuple[Any, Any, int] | None, result: Any) -> None:
        graph = self._of_thread.graph
        if token is None or graph is None:
            return
        collector, node, before = token
        # A node that raises is not among them, but what it needed may have been compiled.
        refused = len(collector._unsupported_nodes) > before or self._recorder.debug.has_grown()
        if not refused or node.op == "placeholder":
            return
        # The bridge has cleared the counters before the node: their values are this node's.
        cut = xla_fx.describe_cut(collector, node, native.fallbacks(), graph)
        if cut is not None:
            graph.cuts.append(cut)
        self._recorder.note_if_compiled(LoweringContext("cut", graph, cut=cut))

    # InputCollector.run_node(self, node): the bridge runs the partitioned graph, and with it
    # the nodes that it left out once more.

    def before_bridge_node(self, args: tuple[Any, ...]) -> Any:
        return args[1]

    def after_bridge_node(self, node: Any, result: Any) -> None:
        graph = self._of_thread.graph
        if graph is None or node is None:
            return
        position = graph.positions.get(node.name)
        for cut in graph.cuts:
            if cut.position == position:
                self._recorder.note_if_compiled(LoweringContext("cut", graph, cut=cut))

    # _xla_sync_multi(tensors, ...): a compiled program settles its inputs, or other code calls it.

    def before_settle(self, args: tuple[Any, ...]) -> LoweringContext | None:
        """Return the context of a compiled program that runs; None if other code settles."""
        frame = caller()
        if frame is None or frame.f_code.co_name != native.LOWERED:
            return None
        values = frame.f_locals  # of optimized_mod(*args), made by extract_internal(xla_model)
        gm = values.get("xla_model")
        piece = self._pieces.get(gm) if gm is not None else None
        inputs = piece.inputs if piece else ()
        waiting = {id(tensor) for tensor in args[0]}
        pending = tuple(
            inputs[position] if position < len(inputs) else PieceInput(f"input {position}")
            for position, arg in enumerate(values.get("args", ()))
            if id(arg) in waiting
        )
        self._recorder.note_if_compiled()
        return LoweringContext("run", piece.fx if piece else None, piece, pending=pending)

    def after_settle(self, context: LoweringContext | None, result: Any) -> None:
        if context is not None:
            self._recorder.note_if_compiled(context)

    # torch.autograd._engine_run_backward: backward() and autograd.grad() go through it.

    def before_backward(self, args: tuple[Any, ...]) -> tuple[Line, ...]:
        """Return the stack that called the backward pass, by which ``after_backward`` ends it."""
        self._recorder.note_if_compiled()
        self._recorder.settle_counters()  # from here on, what runs on the CPU belongs to the pass
        stack = python_stack()
        self._recorder.backward.append(stack)
        return stack

    def after_backward(self, stack: tuple[Line, ...] | None, result: Any) -> None:
        if stack is None:
            return
        self._recorder.note_if_compiled(LoweringContext("backward"))
        running = self._recorder.backward
        running[:] = [running_stack for running_stack in running if running_stack is not stack]
