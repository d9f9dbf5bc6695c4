"""Explains each compilation: why it exists, where, and in words that a user would use.

``explain`` makes the graphs of a window (``observer``) from its events; ``graph`` makes one, also
for a log (``logs.origin``). An ``Event`` (``events``) is one compilation. It has what torch_xla
said of it, the ``CompileReport`` (``reports``), if it said anything; and its ``LoweringContext``:
what the bridge or autograd was doing, if that was watched. For a log the context is read from the
report (``context_of_report``). A context names the FX graph that was being lowered
(``fx.FxGraph``); nodes that XLA cannot take (``fx.Cut``) part that into pieces (``fx.Piece``).
Graphs that no FX graph is behind are explained by ``lazy``.

The cause of a graph, and its reason, by what compiled it::

    fx         a whole FX graph
    split      a piece of one, or what a cut needed       aten::histc runs on the CPU
    recompile  one that was lowered before                x went from shape [4] to [8]
    backward   a backward pass                            the backward pass of eager code
    pending    inputs that were settled before it ran     `x` was still pending when ...
    reshard    a sharded tensor that was put together
    other      nothing is known of it
    sync, access                                          see ``lazy``
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile

from msgspec import Struct
from msgspec.structs import replace

from pytest_graphbreak.layers.xla import lazy
from pytest_graphbreak.layers.xla import private as native
from pytest_graphbreak.layers.xla.events import Event, LoweringContext
from pytest_graphbreak.layers.xla.fx import MOVED, Cut, FxGraph, Piece, runs_on_cpu
from pytest_graphbreak.layers.xla.reports import CompileReport
from pytest_graphbreak.model import stacks
from pytest_graphbreak.model.items import NOWHERE, Frame, Graph
from pytest_graphbreak.model.merging import round_seconds
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.stacks import Line

LAYER = "xla"

_MOVING = re.compile(r"\.(cpu|to|numpy)\(")
"""A call that moves a tensor in a line of source: ``x.cpu()``."""
_DEFINES = ("def ", "async def ", "@", "class ")
"""How the line begins at which the code that Dynamo made for a function has its frame."""

OUTSIDE = "a node of the FX graph did not run on XLA"
"""The reason of a split graph if nothing more is known."""
RESHARDED = "a sharded tensor was read, and put together by a graph"

_LOWERED = ("fx", "split", "recompile")
"""The causes of graphs that are FX graphs, or parts of them."""


class _Why(Struct):
    """The parts of an explanation, of which ``graph`` makes a graph.

    Two stacks lead to the place. Where ``main`` calls the compiled ``forward``, and Dynamo traced
    ``forward`` into ``block``, they are::

        callers    main, and what called it     the Python stack, the innermost frame first
        traced     forward, block               what Dynamo traced, the outermost frame first

    A whole graph is placed in ``forward``. If one node is the cause (``is_of_node``), the graph is
    placed at the line of that node, in ``block``.
    """

    cause: str
    reason: str
    callers: Sequence[Line] = ()
    graph: FxGraph | None = None
    module: str | None = None
    ops: int | None = None
    traced: Sequence[Line] = ()
    is_of_node: bool = False


def explain(events: Sequence[Event], places: Places) -> tuple[list[Graph], set[int]]:
    """Return one graph for each compilation of a window, in order, named by its position.

    Also returns the positions of those that one lazy line compiled again.
    """
    return lazy.find_repeats(
        [graph(str(number), event, places) for number, event in enumerate(events)]
    )


def is_recompile(event: Event) -> bool:
    """Return whether a graph was lowered again below Dynamo, which did not compile again."""
    context = event.context
    return context is not None and bool(context.change) and _belongs_to(context, event)


def graph(name: str, event: Event, places: Places) -> Graph:
    """Return the graph of one compilation."""
    why = _why(event, places)
    report = event.report
    nearest_first = why.traced[::-1] if why.is_of_node else why.traced
    where = _place((*nearest_first, *why.callers), places)
    # Only the FX graph of a log has a place of its own: its nodes, and their lines, are not logged.
    if why.graph is not None and why.graph.where != NOWHERE and why.cause in _LOWERED:
        where = _in_graph(why.graph, event, places) or where
    return Graph(
        LAYER,
        name,
        why.cause,
        ops=why.ops,
        inputs=report.inputs if report else None,
        outputs=report.outputs if report else None,
        hash=report.hash if report else None,
        sources=(why.graph.source,) if why.graph and why.graph.source else (),
        where=where,
        reason=why.reason,
        module=why.module,
        stack=_stack((*stacks.since_test(why.callers[::-1]), *why.traced), where, places),
        cached="compiled",  # CompileTime counts nothing else
        seconds=round_seconds(event.seconds),
    )


def _why(event: Event, places: Places) -> _Why:
    """Explain a compilation by the best evidence: what was watched, else what was reported."""
    frames = event.report.frames if event.report else event.stack
    # A thread of autograd's has no user frames: what runs there belongs to the backward pass.
    candidates = (*frames, *event.backward)
    if event.context is not None and _belongs_to(event.context, event):
        return _explain_in_context(event.context, event, candidates, places)
    if event.report is None or not frames:
        return _explain_unreported(event)
    context = context_of_report(event.report, event.lowering)
    if context is not None:
        return _explain_in_context(context, event, candidates, places)
    if lazy.is_sync(event.report):
        return _Why(*lazy.explain_sync(event.report, candidates, places), candidates)
    if event.backward and not any(places.is_user(frame.file) for frame in frames):
        return _Why("backward", _backward_words(event), event.backward)
    return _Why(*lazy.explain_unsynced(event.report, event.fallbacks, places), candidates)


def context_of_report(report: CompileReport, graph: FxGraph | None) -> LoweringContext | None:
    """Return what the bridge was doing, by a report alone; None if it was not at work.

    It is known by a function on the stack, the first of these that is there::

        partition_fx_graph_for_cpu_fallback    cut     it runs nodes; not if it lowers a piece
        extract_graph_helper                   piece   it lowers a graph, or a part of one
        extract_compiled_graph_helper          run     it settles the inputs before that
        optimized_mod                          run     a compiled program settles its inputs
    """
    graph = graph or FxGraph()
    if report.is_in_backward:
        graph = replace(graph, backward=True, cuts=[])
    is_of_cut = report.has_call_of("partition_fx_graph_for_cpu_fallback")
    if is_of_cut and not report.lowers:
        return LoweringContext("cut", graph)  # the inputs were settled before it
    if report.lowers or report.has_call_of("extract_graph_helper"):
        return LoweringContext("piece", graph, Piece(graph))
    if report.has_call_of("extract_compiled_graph_helper"):
        return LoweringContext("run", graph)
    if report.has_call_of("optimized_mod") or "processing input graphs" in report.stated_cause:
        return LoweringContext("run")
    return None


def _belongs_to(context: LoweringContext, event: Event) -> bool:
    """Return whether a compilation belongs to its context, and not to another thread meanwhile.

    Its stack says it, by the first of these that holds of the context::

        it is a backward pass     the stack is empty, since autograd's threads run no Python
        it has ``within``         that function of the backend is on it
        any other                 a function of the bridge is on it

    Without a report it belongs there, unless it puts a sharded tensor together.
    """
    report = event.report
    if report is None:
        return not event.resharded
    if context.kind == "backward":
        return not report.frames
    if context.within is not None:
        return any((frame.file, frame.name) == context.within for frame in report.frames)
    return any(frame.file.endswith(native.BRIDGE_FILE) for frame in report.frames)


def _explain_in_context(
    context: LoweringContext, event: Event, frames: Sequence[Line], places: Places
) -> _Why:
    """Explain what was compiled while the bridge or autograd was doing ``context``."""
    graph, frames = context.graph, _callers(frames)
    match context.kind:
        case "backward":
            return _Why("backward", _backward_words(event), event.backward)
        case "run":
            made_inside = any(argument.is_made_inside for argument in context.pending)
            if made_inside and context.piece is not None:
                return _split(context, context.piece.cut_before(), frames, places)
            return _pending(_names(context), graph, frames)
        case "cut":
            return _split(context, context.cut, frames, places)
        case "unbridged" if context.pending:
            return _pending(_names(context), graph, frames)
        case "unbridged":
            return _explain_lowered(context, event, frames, places)
        case "inputs" if _compiled_in(event) in ("", "sync"):
            return _pending(graph.pending if graph else (), graph, frames)
        case "inputs":  # a node that was tried needed a value
            cut = graph.cuts[-1] if graph and graph.cuts else None
            return _split(context, cut, frames, places)
    return _explain_piece(context, event, frames, places)


def _names(context: LoweringContext) -> list[str]:
    return [argument.name for argument in context.pending]


def _compiled_in(event: Event) -> str:
    """Return the innermost function of the report's stack; empty without a report."""
    return event.report.frames[0].name if event.report is not None else ""


def _explain_piece(
    context: LoweringContext, event: Event, frames: Sequence[Line], places: Places
) -> _Why:
    """Explain what was compiled while the bridge lowered a piece, not always the piece itself."""
    graph, piece = context.graph, context.piece
    assert graph is not None
    assert piece is not None
    function = _compiled_in(event)
    if function not in ("", "extract_graph_helper"):  # which syncs what is pending before it lowers
        if graph.cuts:
            return _split(context, piece.cut_before(), frames, places)
        if function == "sync":
            return _pending((), graph, frames)
    return _explain_lowered(context, event, frames, places)


def _explain_lowered(
    context: LoweringContext, event: Event, frames: Sequence[Line], places: Places
) -> _Why:
    """Explain a piece of an FX graph, or the whole of it."""
    graph, piece = context.graph, context.piece
    assert graph is not None
    assert piece is not None
    traced: Sequence[Line] = graph.stack
    if graph.backward and event.backward:
        frames, traced = event.backward, ()
    why = _Why("fx", "", frames, graph=graph, module=graph.module, ops=piece.ops, traced=traced)
    if context.change:  # lowered again below Dynamo
        return replace(why, cause="recompile", reason=context.change)
    if graph.cuts:
        return _split(context, piece.cut_after(), frames, places)
    if graph.backward:
        of = f"of graph {graph.source}" if graph.source else "of a compiled function"
        return replace(why, cause="backward", reason=f"the backward pass {of}")
    if graph.change:  # compiled again by Dynamo
        return replace(why, cause="recompile", reason=graph.change)
    return why


def _split(
    context: LoweringContext, cut: Cut | None, frames: Sequence[Line], places: Places
) -> _Why:
    """Explain a piece, or what a node needed, by the cut that parted the graph, if it is known."""
    ops = context.piece.ops if context.piece and context.kind == "piece" else None
    if cut is None:
        return _Why("split", OUTSIDE, frames, graph=context.graph, ops=ops)
    return _Why(
        "split",
        _because(cut, places),
        frames,
        graph=context.graph,
        module=cut.module,
        ops=ops,
        traced=cut.stack,
        is_of_node=True,
    )


def _because(cut: Cut, places: Places) -> str:
    """Return the reason of a cut, with the line that made what could not be taken."""
    for stack in cut.makers:
        codes = (frame.code for frame in _users(reversed(stack), places))
        if code := next(filter(None, codes), ""):
            return f"{cut.reason} from `{code}`"
    if cut.reason == MOVED:
        lines = [frame.code for frame in _users(cut.stack, places)]
        method = _MOVING.search(lines[-1]) if lines else None
        return f"{MOVED} by .{method[1]}()" if method else MOVED
    return cut.reason


def _explain_unreported(event: Event) -> _Why:
    """Explain what torch_xla did not report, or reported without a stack."""
    if event.resharded:
        return _Why("reshard", RESHARDED)
    if event.backward:
        return _Why("backward", _backward_words(event), event.backward)
    return _Why("other", event.off or "compiled in a thread that runs no Python")


def _backward_words(event: Event) -> str:
    words = "the backward pass of eager code"
    return f"{words}: {runs_on_cpu(event.fallbacks)}" if event.fallbacks else words


def _pending(names: Iterable[str], graph: FxGraph | None, frames: Sequence[Line]) -> _Why:
    """Explain what computed inputs that were pending: ``names``, or unnamed lazy work."""
    what = "the compiled function"
    if graph is not None and graph.source:
        of = "the backward pass of " if graph.backward else ""
        what = f"{of}graph {graph.source}"
    subjects = list(dict.fromkeys(names))
    subject = " and ".join(subjects) or "lazy work"
    verb = "were" if len(subjects) > 1 else "was"
    reason = f"{subject} {verb} still pending when {what} was called"
    return _Why("pending", reason, frames, graph=graph)


def _callers(frames: Sequence[Line]) -> Sequence[Line]:
    """Return the callers of the compiled function: the frames outside of Dynamo's entry.

    Inside are the backend's frames, and a backend may be the user's own.
    """
    for number, frame in enumerate(frames):
        if frame.file.endswith("torch/_dynamo/eval_frame.py"):
            return frames[number + 1 :]
    return frames


def _users(frames: Iterable[Line], places: Places) -> Iterator[Frame]:
    return (places.frame(*line) for line in frames if places.is_user(line.file))


def _stack(frames: Iterable[Line], where: Frame, places: Places) -> tuple[Frame, ...]:
    """Return the user's frames, outermost first, up to the place itself, which is the last.

    The line of Dynamo's code for a function is its ``def``: what it traced continues from there.
    """
    if where == NOWHERE:
        return ()
    stack: list[Frame] = []
    for frame in takewhile(lambda frame: frame != where, _users(frames, places)):
        if not frame.code.startswith(_DEFINES) and frame not in stack[-1:]:
            stack.append(frame)
    return (*stack, where)


def _place(frames: Iterable[Line], places: Places) -> Frame:
    """Return the first frame of the user's.

    A frame at its own ``def`` is Dynamo's code for that function: the line that called it says
    more.
    """
    at_def = NOWHERE
    for frame in _users(frames, places):
        if not frame.code.startswith(_DEFINES):
            return frame
        if at_def == NOWHERE:
            at_def = frame
    return at_def


def _in_graph(graph: FxGraph, event: Event, places: Places) -> Frame | None:
    """Return the place of Dynamo's graph, if the user's innermost frame is Dynamo's code."""
    frames = event.report.frames if event.report is not None else ()
    frame = next(_users(frames, places), None)
    return graph.where if frame is None or frame.code.startswith(_DEFINES) else None
