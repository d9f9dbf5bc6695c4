"""The inductor layer: what inductor compiled or loaded, and what left the device's graph.

That is an operator that inductor calls as a fallback, or a CUDA graph that it does not record.
``sensors`` has the hooks. A graph here comes from one of Dynamo, which has the place and the cause;
they are put together when the record of all processes is whole.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from pytest_graphbreak.layers.hooked import HookedObserver
from pytest_graphbreak.layers.hooks import LatePatch
from pytest_graphbreak.layers.inductor.sensors import InductorGraph, InductorSensors, Skipped
from pytest_graphbreak.model import stacks
from pytest_graphbreak.model.items import NOWHERE, Eager, Graph
from pytest_graphbreak.model.merging import merge, record_of
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.stacks import Line
from pytest_graphbreak.text.numbers import plural

LAYER: Final = "inductor"
DYNAMO: Final = "dynamo"
CAPTURE: Final = "capture/"
"""The names of Dynamo's graphs of functions that were captured or loaded as a whole."""


class InductorObserver(HookedObserver):
    """Watches inductor in this process, in all of its threads."""

    layer = LAYER

    def __init__(self) -> None:
        super().__init__()
        self._sensors = InductorSensors(self.note, self.note_fault)

    def hooks(self) -> Sequence[LatePatch]:
        return self._sensors.hooks()

    def isolate(self, key: str) -> None:
        self._sensors.forget()

    def explain(self, events: Sequence[Any], places: Places) -> Record:
        graphs: list[Graph] = []
        rounds: Counter[tuple[str, str]] = Counter()
        events = [event for event in events if not _is_given_up(event)]
        for event in events:
            if isinstance(event, InductorGraph):
                rounds[event.frame, event.kind] += 1
                graphs.append(_graph(event, rounds[event.frame, event.kind], places))
        return record_of(
            LAYER,
            graphs=len(graphs),
            graph_list=graphs,
            eager=[entry for event in events for entry in _eager(event, places)],
        )

    def complete(self, record: Record) -> Record:
        """Return the record with place, owner and cause of each graph, from that of Dynamo."""
        if LAYER not in record.layers:
            return record
        # Dynamo's graphs by their names, which ``_graph`` has put into ``sources``.
        above = {
            (graph.process, graph.name): graph
            for graph in record.graph_list
            if graph.layer == DYNAMO
        }
        ahead = (graph for graph in record.graph_list if _is_ahead_of_time(graph))
        # How many parts each function has, by cause, that was compiled ahead of time.
        parts = Counter((graph.process, graph.sources, graph.cause) for graph in ahead)
        graphs = tuple(
            _joined(graph, above, is_part=parts[graph.process, graph.sources, graph.cause] > 1)
            if graph.layer == LAYER
            else graph
            for graph in record.graph_list
        )
        skipped = merge(  # so that the same at one place is one entry, with a count
            [Record(layers=(LAYER,), eager=(*record.eager, *_graphs_without_capture(graphs)))]
        )
        return replace(record, graph_list=graphs, eager=skipped.eager)


# Names of graphs, and their ``sources`` until ``_joined`` finds the graph of Dynamo's by them:
#
#   name                   sources
#   0/0 forward            0/0
#   0/0 forward#2          0/0#2      Dynamo's second round, or a second part of one graph
#   capture/0 inference    capture/0  a function that was compiled ahead of time, or its first part
#   capture/0 inference#2  capture/0  its second part
#   inference              (none)     no graph of Dynamo's is known


def _graph(event: InductorGraph, number: int, places: Places) -> Graph:
    """Return a graph; ``number`` counts those of the same kind and frame, from 1.

    ``event.frame`` is the name of a graph of Dynamo's.
    """
    name = f"{event.frame} {event.kind}".strip()
    line = skip_line(event.skip)
    kernels, calls = plural(event.kernels, "kernel"), plural(event.calls, "call")
    contents = f"{kernels}, {calls} of libraries or fallbacks" if event.calls else ""
    skipped = skip_words(event.skip) if event.skip else ""
    begins = event.part.line
    stack = stacks.users(event.stack, places)
    sizes = f"for {event.part.sizes}" if event.part.sizes else ""
    source = event.frame if number == 1 or event.function else f"{event.frame}#{number}"
    if begins is not None and places.is_user(begins.file):
        # A part is at the line that reads its first input, not where all were compiled.
        stack = (*stack, places.frame(*begins))
    return Graph(
        LAYER,
        name if number == 1 else f"{name}#{number}",
        "recompile" if _is_again(event.compile_id) else event.kind,
        ops=event.kernels,
        inputs=event.inputs,
        hash=event.key or None,
        sources=(source,) if event.frame else (),
        where=stack[-1] if stack else NOWHERE,
        # The last part is read back by ``_graphs_without_capture``, from ``PREFIX`` on.
        reason="; ".join(filter(None, (sizes, contents, event.missed, skipped))),
        cached="loaded" if event.loaded else "compiled",
        stack=(places.frame(*line),) if line is not None else (),  # what prevents a CUDA graph
    )


def _is_again(frame: str) -> bool:
    """Return whether a compile id is that of a frame which was compiled before: ``0/1``.

    One of compiled autograd (``!0/1/0``) does not say it.
    """
    return frame.partition("/")[2].isdigit() and not frame.endswith("/0")


def _is_given_up(event: InductorGraph | Skipped) -> bool:
    """Return whether a graph was loaded with a function that was then given up."""
    return isinstance(event, InductorGraph) and bool(event.function and event.function.given_up)


def _is_ahead_of_time(graph: Graph) -> bool:
    """Return whether a graph belongs to a function that was compiled ahead of time."""
    return graph.layer == LAYER and any(source.startswith(CAPTURE) for source in graph.sources)


def _joined(graph: Graph, above: dict[tuple[str | None, str], Graph], *, is_part: bool) -> Graph:
    """Return a graph with what the Dynamo graph that it came from knows.

    ``is_part``: one of several of a function that was compiled ahead of time, which has a place of
    its own.
    """
    if not graph.sources:
        return graph
    source = graph.sources[0]
    # Dynamo's ids start again in a second round, ``0/0#2``; parts of one graph share its id.
    origin = above.get((graph.process, source))
    origin = origin or above.get((graph.process, source.partition("#")[0]))
    if origin is None:
        return graph
    kind = graph.name.partition(" ")[2].partition("#")[0]  # ``forward``, of ``0/0 forward#2``
    return replace(
        graph,
        cause="recompile" if origin.cause == "recompile" else kind or graph.cause,
        sources=(origin.name,),
        where=graph.where if is_part else origin.where,
        owner=origin.owner,
    )


def _graphs_without_capture(graphs: Iterable[Graph]) -> Iterable[Eager]:
    """Yield the graphs without a CUDA graph, as code that left the device's graph."""
    for graph in graphs:
        # ``2 kernels, 1 call of ...; no CUDA graph: ...``, as ``_graph`` writes it
        _, prefix, words = graph.reason.partition(PREFIX)
        if graph.layer == LAYER and prefix:
            where = graph.stack[-1] if graph.stack else graph.where
            yield Eager(LAYER, f"{prefix}{words}", where, process=graph.process, owner=graph.owner)


def _eager(event: InductorGraph | Skipped, places: Places) -> Iterable[Eager]:
    """Yield what left the device's graph, each at its line, or where the graph was called."""
    stack = stacks.users(event.stack, places)
    called = stack[-1] if stack else NOWHERE
    reasons = (
        [(skip_words(event.reason), skip_line(event.reason))]
        if isinstance(event, Skipped)
        else [(fallback.words, fallback.line) for fallback in event.fallbacks]
    )
    for words, line in reasons:
        yield Eager(LAYER, words, called if line is None else places.frame(*line))


# Why inductor records no CUDA graph where one was asked for, in a user's words
# (torch/_inductor/cudagraph_utils.py, cudagraph_trees.py, lowering.py).

PREFIX: Final = "no CUDA graph: "

WORDS: Final = (
    (r"multiple devices:\s*$", "nothing of it runs on a GPU; move model and inputs to cuda"),
    (
        r"cpu device|multiple devices",
        "a tensor on the CPU takes part; move it to the GPU, or make it there (device=x.device)",
    ),
    (
        r"mutated inputs|storage mutation",
        "it writes to an input in place; return a new tensor, or make the input static "
        "(torch._dynamo.mark_static_address)",
    ),
    (
        r"re-?recording limit",
        "it was recorded too often; keep its inputs at one address and in one shape",
    ),
    (
        r"dynamic|symint|unbacked|_local_scalar_dense|\bitem\b|nonzero",
        "a size or value is known only on the device; keep it a tensor, or pad to a fixed size",
    ),
    (r"non-?tensor", "an input is no tensor; pass it as a tensor"),
    (r"complex memory|overlap", "a tensor overlaps itself; call .contiguous() on it first"),
    (r"allocator|expandable", "the caching allocator is off (PYTORCH_NO_CUDA_MEMORY_CACHING)"),
    (r"cpp.?wrapper", "cpp_wrapper is on; turn it or CUDA graphs off"),
    (
        r"determinis|incompatible|unsafe|custom op|hop|cond|while",
        "an operation in it cannot be recorded; compile the part around it by itself",
    ),
    (r"no part of it", "none of its parts can be recorded; look for operations on the CPU"),
)
"""What torch says, as a pattern, and what we say; the first that is found counts."""
_VALUES: Final = re.compile(r"[(\[{].{0,200}?[)\]}]|\d+")
"""Numbers, and all that is in brackets: what may be another in the next run."""


def skip_words(reason: str) -> str:
    """Return why there is no CUDA graph and what to do, without values that change by run."""
    text = reason.partition("Found from")[0]
    for pattern, advice in WORDS:
        if re.search(pattern, text.strip(), re.I):
            return f"{PREFIX}{advice}"
    first = text.strip().partition("\n")[0].removeprefix("skipping cudagraphs due to ")
    without_values = " ".join(_VALUES.sub("", first).split())
    return f"{PREFIX}{without_values[:200].strip(' .,') or 'torch gives no reason'}"


def skip_line(reason: str) -> Line | None:
    """Return the line that torch names as the one that prevents it, if it names one."""
    lines = stacks.read(reason.partition("Found from")[2])
    return lines[-1] if lines else None
