"""The inductor layer: what inductor compiled or loaded, and what left the device's graph.

That is an operator that inductor calls as a fallback, or a CUDA graph that it does not record.
``sensors`` notes events by hooks, ``caches`` says why a graph was not loaded, ``texts`` reads what
inductor generated, ``skips`` why there is no CUDA graph.

A graph here comes from one of Dynamo, which has the place and the cause. ``explain`` makes a record
of this layer alone, in each process by itself; ``complete`` finds the graph of Dynamo by its name,
once the record of all layers and processes is whole. Between the two a record may have been JSON,
so all that ``complete`` needs is in its fields::

    name                   sources
    0/0 forward            0/0        of Dynamo's graph 0/0
    0/0 forward#2          0/0#2      of its second round, or a second part of that graph
    capture/0 inference    capture/0  of a function compiled ahead of time, or of its first part
    capture/0 inference#2  capture/0  its second part
    inference              (none)     no graph of Dynamo's is known

``cause`` is the kind of the graph, and ``reason`` ends with what ``skips`` says of it, if anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from pytest_graphbreak.layers.hooked import HookedObserver
from pytest_graphbreak.layers.hooks import LatePatch
from pytest_graphbreak.layers.inductor.sensors import InductorGraph, InductorSensors, Skipped
from pytest_graphbreak.layers.inductor.skips import PREFIX, skip_line, skip_words
from pytest_graphbreak.model import stacks
from pytest_graphbreak.model.items import NOWHERE, Eager, Graph
from pytest_graphbreak.model.merging import once_each_place, record_of
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
        eager: list[Eager] = []
        rounds: Counter[tuple[str, str]] = Counter()
        for event in events:
            if isinstance(event, Skipped):
                words, line = skip_words(event.reason), skip_line(event.reason)
                eager.append(_eager(words, line, event.stack, places))
            # A graph that was loaded with a function which was then given up is compiled anew.
            elif event.function is None or not event.function.given_up:
                rounds[event.above, event.kind] += 1
                graphs.append(_graph(event, rounds[event.above, event.kind], places))
                eager += [
                    _eager(fallback.words, fallback.line, event.stack, places)
                    for fallback in event.fallbacks
                ]
        return record_of(LAYER, graphs=len(graphs), graph_list=graphs, eager=eager)

    def complete(self, record: Record) -> Record:
        """Return the record with place, owner and cause of each graph, from Dynamo's graphs."""
        if LAYER not in record.layers:
            return record
        above = {
            (graph.process, graph.name): graph
            for graph in record.graph_list
            if graph.layer == DYNAMO
        }
        # A function that was compiled ahead of time has several graphs of a kind if it is in parts.
        parts = Counter(_function(graph) for graph in record.graph_list if _is_ahead_of_time(graph))
        graphs = tuple(
            _joined(graph, above, is_part=parts[_function(graph)] > 1)
            if graph.layer == LAYER
            else graph
            for graph in record.graph_list
        )
        return replace(
            record,
            graph_list=graphs,
            eager=once_each_place((*record.eager, *_without_cuda_graph(graphs))),
        )


# Making the record of this layer alone.


def _graph(event: InductorGraph, number: int, places: Places) -> Graph:
    """Return a graph; ``number`` counts graphs of one kind and one graph of Dynamo, from 1."""
    name = f"{event.above} {event.kind}".strip()
    source = event.above if number == 1 or event.function else f"{event.above}#{number}"
    stack = stacks.users(event.stack, places)
    begins, prevents = event.part.line, skip_line(event.skip)
    if begins is not None and places.is_user(begins.file):
        # A part is at the line that reads its first input, not where all were compiled.
        stack = (*stack, places.frame(*begins))
    return Graph(
        LAYER,
        name if number == 1 else f"{name}#{number}",
        event.kind,
        ops=event.kernels,
        inputs=event.inputs,
        hash=event.key or None,
        sources=(source,) if event.above else (),
        where=stack[-1] if stack else NOWHERE,
        reason=_reason(event),
        cached="loaded" if event.loaded else "compiled",
        stack=() if prevents is None else (places.frame(*prevents),),  # not the calls: see Graph
    )


def _reason(event: InductorGraph) -> str:
    """Return what is known of a graph: ``2 kernels, 1 call of ...; ...; no CUDA graph: ...``.

    ``_skip_in`` finds the last part again.
    """
    kernels, calls = plural(event.kernels, "kernel"), plural(event.calls, "call")
    parts = (
        f"for {event.part.sizes}" if event.part.sizes else "",
        f"{kernels}, {calls} of libraries or fallbacks" if event.calls else "",
        event.missed,
        skip_words(event.skip) if event.skip else "",
    )
    return "; ".join(filter(None, parts))


def _skip_in(reason: str) -> str:
    """Return why there is no CUDA graph, the last part of what ``_reason`` returned; or nothing."""
    _, prefix, words = reason.partition(PREFIX)
    return f"{prefix}{words}"


def _eager(words: str, line: Line | None, stack: Iterable[Line], places: Places) -> Eager:
    """Return what left the device's graph, at its line, or where the graph was called."""
    if line is not None:
        return Eager(LAYER, words, places.frame(*line))
    called = stacks.users(stack, places)
    return Eager(LAYER, words, called[-1] if called else NOWHERE)


# Completing it by the graphs of Dynamo.


def _is_ahead_of_time(graph: Graph) -> bool:
    """Return whether a graph belongs to a function that was compiled ahead of time."""
    return graph.layer == LAYER and any(source.startswith(CAPTURE) for source in graph.sources)


def _function(graph: Graph) -> tuple[str | None, tuple[str, ...], str]:
    """Return what the parts of one function have in common: process, graph of Dynamo, and kind."""
    return graph.process, graph.sources, graph.cause


def _joined(graph: Graph, above: dict[tuple[str | None, str], Graph], *, is_part: bool) -> Graph:
    """Return a graph with what the Dynamo graph that it came from knows.

    ``is_part``: one of several of a function that was compiled ahead of time, which has a place of
    its own.
    """
    if not graph.sources:
        return graph
    source = graph.sources[0]
    # Dynamo's ids start again in a second round, ``0/0#2``; parts of one graph share its id.
    frame = source.partition("#")[0]
    origin = above.get((graph.process, source)) or above.get((graph.process, frame))
    if origin is None:  # Dynamo made it in an earlier window: this may be its backward pass
        return replace(graph, cause="recompile") if _is_again(frame) else graph
    return replace(
        graph,
        cause="recompile" if origin.cause == "recompile" else graph.cause,
        sources=(origin.name,),
        where=graph.where if is_part else origin.where,
        owner=origin.owner,
    )


def _is_again(frame: str) -> bool:
    """Return whether a compile id is that of a frame which was compiled before: ``0/1``.

    One of compiled autograd (``!0/1/0``) does not say it, nor does a capture (``capture/1``).
    """
    number, _, attempt = frame.partition("/")
    return number.isdigit() and attempt.isdigit() and attempt != "0"


def _without_cuda_graph(graphs: Iterable[Graph]) -> Iterable[Eager]:
    """Yield the graphs without a CUDA graph, as code that left the device's graph."""
    for graph in graphs:
        if graph.layer == LAYER and (skip := _skip_in(graph.reason)):
            where = graph.stack[-1] if graph.stack else graph.where
            yield Eager(LAYER, skip, where, process=graph.process, owner=graph.owner)
