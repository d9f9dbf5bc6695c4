"""What happened in JAX -> what a window saw of a layer: graphs with causes and places."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from types import FrameType
from typing import Any, Final

from msgspec.structs import replace

from pytest_graphbreak.layers.jax.calls import LIBRARIES, is_jax, lines
from pytest_graphbreak.layers.jax.events import (
    Event,
    Executable,
    Interrupted,
    MissedExecutable,
    SensorFault,
)
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import NOWHERE, Eager, Frame, Graph, Recompile, Record
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


# What stops code from being compiled: the value of an array is asked for while JAX traces.
#
# JAX raises then. The exception is seen where it leaves the call of ``jit``: what JAX raises and
# catches by itself, as it does to try things out, is none of our business.

ASKED: Final = {
    "TracerBoolConversionError": "by bool(): if, while, and, or, not and assert do so",
    "TracerIntegerConversionError": "as an index: range() and lists do so",
    "TracerArrayConversionError": "by NumPy",
    "NonConcreteBooleanIndexError": "to know how many elements a boolean mask takes",
    "ConcretizationTypeError": "by item(), float(), int(), or as a shape",
}
"""How the value of a traced array can be asked for, by the class of ``jax.errors``."""

_BOUNDARY: Final = "reraise_with_filtered_traceback"
_JIT: Final = ("cache_miss", "jit_trace", "jit_lower")


def is_jit_boundary(frame: FrameType | None) -> bool:
    """Whether a frame is the edge of a call of ``jit``, which an exception is passing."""
    if frame is None or frame.f_code.co_name != _BOUNDARY:
        return False
    return getattr(frame.f_locals.get("fun"), "__name__", "") in _JIT


def stop_reason(error: BaseException) -> str:
    """``the value of a traced array is asked for by bool()``; empty for any other exception."""
    errors: Any = sys.modules.get("jax.errors")
    for name, how in ASKED.items():
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and isinstance(error, kind):
            return f"{name}: the value of a traced array is asked for {how}"
    return ""


def refused(name: str, error: BaseException) -> str:
    """What XLA said when it could not compile a function."""
    text = str(error).strip().split("\n")[0]
    return f"XLA cannot compile {name}: {text or type(error).__name__}"


def stop_stack(error: BaseException, frame: FrameType | None) -> tuple[Line, ...]:
    """The frames from the outermost to the one that asked, without those of JAX at the end."""
    found = [*lines(frame)]
    trace = error.__traceback__.tb_next if error.__traceback__ is not None else None
    inner = []
    while trace is not None:
        code = trace.tb_frame.f_code
        line = Line(code.co_filename, trace.tb_lineno, code.co_name)
        inner.append((line, is_jax(trace.tb_frame)))
        trace = trace.tb_next
    while inner and inner[-1][1]:
        inner.pop()
    return (*found, *(line for line, _ in inner))
