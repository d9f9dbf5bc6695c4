"""What happened in JAX -> what a window saw of a layer: graphs with causes and places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

from pytest_graphbreak.layers.jax.calls import LIBRARIES
from pytest_graphbreak.layers.jax.events import (
    Event,
    Executable,
    Interrupted,
    MissedExecutable,
    SensorFault,
)
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import (
    NOWHERE,
    Eager,
    Frame,
    Graph,
    Recompile,
    Record,
)
from pytest_graphbreak.model.stacks import Line, since_test, users

MOST_NAMES: Final = 6
"""Operations that are named of one line; the rest are counted."""


def explained(
    layer: str,
    events: Iterable[Event],
    is_here: Callable[[Executable], bool],
    places: Places,
    errors: Sequence[str],
) -> Record:
    """What one layer saw: the programs that are its own."""
    graphs: list[Graph] = []
    recompiles: list[Recompile] = []
    eager: list[Eager] = []
    faults = list(errors)
    made: Counter[str] = Counter()
    loaded = 0
    for event in events:
        match event:
            case Executable() if is_here(event):
                if event.loaded:
                    loaded += 1
                    continue
                graph = _graph(layer, made[event.name], event, places)
                made[event.name] += 1
                graphs.append(graph)
                if graph.cause == "retrace":
                    recompiles.append(
                        Recompile(layer, graph.name, graph.reason, graph.where, graph.stack[:-1])
                    )
            case Interrupted() if layer == "jax":
                stack = _stack(event.stack, places)
                eager.append(Eager(layer, event.reason, stack[-1] if stack else NOWHERE))
            case MissedExecutable():
                faults.append(
                    f"{layer}: JAX counted a program ({event.name}) that it did not compile by "
                    "compile_or_get_cached, so the count is too low"
                )
            case SensorFault():
                faults.append(event.error)
    return Record.of(
        layer,
        graphs=len(graphs),
        recompiles=len(recompiles),
        eager=eager,
        recompile_list=recompiles,
        graph_list=_joined(graphs),
        errors=faults,
        notes=_loaded(layer, loaded, len(graphs)),
    )


def _graph(layer: str, number: int, program: Executable, places: Places) -> Graph:
    """``number`` is how many programs of this name there were before."""
    stack = _stack(program.stack, places)
    return Graph(
        layer,
        f"{program.name}/{number}",
        program.cause,
        ops=program.ops,
        inputs=program.inputs,
        outputs=program.outputs,
        where=stack[-1] if stack else NOWHERE,
        reason=program.reason,
        stack=stack,
        cached="compiled",
    )


def _joined(graphs: Sequence[Graph]) -> Iterator[Graph]:
    """Operations outside of ``jit`` that follow each other on one line say so in common."""
    for key, run in groupby(graphs, lambda graph: (graph.cause, graph.where)):
        same = list(run)
        if key[0] == "eager":
            names = list(dict.fromkeys(graph.name.rpartition("/")[0] for graph in same))
            more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
            reason = f"outside of jax.jit: {', '.join(names[:MOST_NAMES])}{more}"
            same = [replace(graph, reason=reason) for graph in same]
        yield from same


def _stack(lines: Sequence[Line], places: Places) -> tuple[Frame, ...]:
    own = [line for line in since_test(lines) if not LIBRARIES.search(line.file)]
    return users(own or lines, places)


def _loaded(layer: str, loaded: int, compiled: int) -> Iterable[str]:
    if loaded:
        yield (
            f"{layer}: compiled {compiled}, loaded {loaded} from JAX's persistent cache: what is "
            "loaded is not counted, so the count depends on what is in that cache"
        )
