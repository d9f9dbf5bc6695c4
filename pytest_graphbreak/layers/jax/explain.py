"""What a window saw of JAX: graphs with causes and places, and code that could not be compiled.

``sensors`` notes events, an ``Executable`` with the cause and the reason that it found at once;
the window of ``observer`` has them made a record here when it is read. Frames become places, what
other devices run is left out, and eager programs of one line get one reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pytest_graphbreak.layers.jax.device import is_on_device
from pytest_graphbreak.layers.jax.executables import Executable, HostCallback
from pytest_graphbreak.layers.jax.functions import LIBRARIES
from pytest_graphbreak.layers.jax.interruptions import Interrupted
from pytest_graphbreak.model.items import NOWHERE, Break, Eager, Frame, Graph, Recompile
from pytest_graphbreak.model.merging import record_of, round_seconds
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.stacks import Line, since_test, users


class MissedExecutable(Struct, eq=False):
    """A program that JAX counted and our hook did not see."""

    name: str


class SensorFault(Struct, eq=False):
    """The failure of a sensor, in words."""

    error: str


Event = Executable | Interrupted | MissedExecutable | SensorFault

LAYER: Final = "jax"
MOST_NAMES: Final = 6
"""The most operations of one line that are named; the rest are counted."""


def explain(events: Iterable[Event], places: Places, errors: Sequence[str]) -> Record:
    """Return what the layer saw: the programs of its device."""
    reader = _EventReader(places, [*errors])
    for event in events:
        reader.add(event)
    return reader.record()


class _EventReader:
    """Collects what the layer saw: each event is added, then ``record`` is asked for."""

    def __init__(self, places: Places, errors: list[str]) -> None:
        self._places = places
        self._graphs: list[Graph] = []
        self._breaks: list[Break] = []
        self._eager: list[Eager] = []
        self._of_name: Counter[str] = Counter()
        """How many programs of a name there were: ``f/0``, ``f/1``."""
        self._loaded = 0
        self._errors = errors

    def add(self, event: Event) -> None:
        match event:
            case Executable() if is_on_device(event):
                self._add_program(event)
            case Interrupted():
                stack = _stack(event.stack, self._places)
                self._eager.append(Eager(LAYER, event.reason, stack[-1] if stack else NOWHERE))
            case MissedExecutable():
                self._errors.append(
                    f"jax: JAX counted a program ({event.name}) that it did not compile by "
                    "compile_or_get_cached, so the count is too low"
                )
            case SensorFault():
                self._errors.append(event.error)

    def _add_program(self, event: Executable) -> None:
        if event.loaded:
            self._loaded += 1
            return
        graph = self._graph(event)
        self._of_name[event.name] += 1
        self._graphs.append(graph)
        if graph.cause != "eager":  # outside of ``jit`` Python runs each operation anyway
            self._breaks += [
                self._break(callback, graph.stack) for callback in event.contents.callbacks
            ]

    def _graph(self, program: Executable) -> Graph:
        stack = _stack(program.stack, self._places)
        return Graph(
            LAYER,
            f"{program.name}/{self._of_name[program.name]}",
            program.cause,
            ops=program.contents.ops,
            inputs=program.contents.inputs,
            outputs=program.contents.outputs,
            where=stack[-1] if stack else NOWHERE,
            reason=self._reason(program),
            stack=stack,
            cached="compiled",  # what was loaded is no graph
            seconds=round_seconds(program.seconds),
        )

    def _reason(self, program: Executable) -> str:
        """Return why there is a program, and of which function it is."""
        if program.cause == "eager":
            return program.reason
        if program.cause == "aot":
            return f"{program.name}, compiled ahead of its calls"
        # Without a function of the user's to name, a plain call of jit has its program's name.
        if program.defined is None or LIBRARIES.search(program.defined.file):
            return program.reason or (program.name if program.cause == "jit" else "")
        where = self._places.frame(*program.defined)
        function = f"{program.defined.name} of {where.file}:{where.line}"
        return f"{program.reason} ({function})" if program.reason else function

    def _break(self, callback: HostCallback, caller: tuple[Frame, ...]) -> Break:
        """Return a break, at the stack that JAX noted while tracing, else at the program's call."""
        stack = _stack(callback.stack, self._places) or caller
        return Break(
            LAYER,
            f"{callback.kind}: the compiled program calls Python on the host each time it runs",
            stack[-1] if stack else NOWHERE,
            stack=stack,
        )

    def record(self) -> Record:
        repeats = [graph for graph in self._graphs if graph.cause == "retrace"]
        return record_of(
            LAYER,
            graphs=len(self._graphs),
            recompiles=len(repeats),
            breaks=self._breaks,
            eager=self._eager,
            recompile_list=map(_recompile, repeats),
            graph_list=_join_reasons(self._graphs),
            errors=self._errors,
            notes=_load_notes(self._loaded, len(self._graphs)),
        )


def _recompile(graph: Graph) -> Recompile:
    call = graph.stack[:-1]
    return Recompile(
        LAYER, graph.name, graph.reason, where=graph.where, stack=call, seconds=graph.seconds
    )


def _join_reasons(graphs: Sequence[Graph]) -> Iterator[Graph]:
    """Yield graphs; operations outside of ``jit`` on one line share one reason."""
    places: dict[Frame, list[Graph]] = {}
    for graph in graphs:
        if graph.cause == "eager":
            places.setdefault(graph.where, []).append(graph)
    reasons = {where: _outside(same) for where, same in places.items()}
    for graph in graphs:
        is_eager = graph.cause == "eager"
        yield replace(graph, reason=reasons[graph.where]) if is_eager else graph


def _outside(same: Sequence[Graph]) -> str:
    """Return what the operations of one line are, and why the first repeated one was.

    ``outside of jax.jit: sin, add; add again, at x: float32[3] before, float32[4] now``.
    """
    names = list(dict.fromkeys(graph.name.rpartition("/")[0] for graph in same))
    others = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    reason = f"outside of jax.jit: {', '.join(names[:MOST_NAMES])}{others}"
    again = next((graph for graph in same if graph.reason), None)
    if again is None:
        return reason
    return f"{reason}; {again.name.rpartition('/')[0]} again, {again.reason}"


def _stack(stack: Sequence[Line], places: Places) -> tuple[Frame, ...]:
    """Return the user's frames, without libraries that wrap JAX unless all frames are theirs."""
    without = [line for line in since_test(stack) if not LIBRARIES.search(line.file)]
    return users(without or stack, places)


def _load_notes(loaded: int, compiled: int) -> Iterable[str]:
    if loaded:
        yield (
            f"jax: compiled {compiled}, loaded {loaded} from JAX's persistent cache: what is "
            "loaded is not counted, so the count depends on what is in that cache"
        )
