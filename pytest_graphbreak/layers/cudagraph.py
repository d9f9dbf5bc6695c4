"""The cudagraph layer: captures are graphs, replays are executions, re-records are recompiles.

All of Python captures and replays through ``torch.cuda.CUDAGraph``: ``torch.cuda.graph``,
``make_graphed_callables``, inductor's trees, vLLM's graphs. Code in C++ that uses ``at::cuda::
CUDAGraph`` by itself is not seen. A graph that failed while it was captured is none.

What torch calls, and who handles it here::

    CUDAGraphTreeManager.record_function   _on_record        inductor's trees: why once more
        CUDAGraph.capture_end              _on_capture_end   a graph, whoever captured it
    CUDAGraph.replay                       _on_replay        one execution of it

Sources: torch/cuda/graphs.py and torch/_inductor/cudagraph_trees.py of torch 2.6 to 2.13.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from types import CodeType
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from pytest_graphbreak.layers.dynamo import private
from pytest_graphbreak.layers.faults import guard, or_else
from pytest_graphbreak.layers.hooked import (
    HookedObserver,
    do_without,
    graph_called,
    is_machinery,
    record_of_graphs,
    stack_here,
)
from pytest_graphbreak.layers.hooks import Hook, LatePatch, caller
from pytest_graphbreak.model.items import NOWHERE, Frame, Graph, LineRuns
from pytest_graphbreak.model.merging import merge, record_of
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.model.stacks import Line, line_of, outwards

LAYER: Final = "cudagraph"
_CAUSES: Final = {
    "make_graphed_callables": "callable",
    "cudagraphify": "tree",
    "cudagraphify_impl": "tree",
    "_record": "tree",
}
"""The functions of torch that capture for somebody, and the cause of what they capture: of
``model.layers``. Without one of them on the stack the cause is ``captured``."""

Replay = tuple[int, CodeType | None, int]
"""A replay: the number of the graph, and the code and the instruction that asked for it."""


class Captured(Struct, frozen=True):
    """A CUDA graph; ``again`` says what changed where it was captured before, else it is None."""

    number: int
    cause: str
    again: str | None
    stack: tuple[Line, ...]


class _Recording(threading.local):
    """Why inductor's trees record a function again in this thread; None while they do not.

    ``_on_record`` sets it for the capture inside.
    """

    again: str | None = None


class CudaGraphObserver(HookedObserver):
    """Watches CUDA graphs in this process, in all of its threads."""

    layer = LAYER

    def __init__(self) -> None:
        super().__init__()
        self._local = _Recording()
        self._numbers: dict[int, tuple[weakref.ref[Any], int]] = {}
        """The number of each CUDA graph that is alive, by ``id()``."""
        self._count = count(1)
        self._captured: set[int] = set()
        """The numbers of graphs that were captured once."""
        self._replays: list[Replay] = []
        """Each replay in this process; a window remembers how many there were (``mark_runs``)."""
        self._interned: dict[Replay, Replay] = {}
        """Each place once, so that a replay adds no more than a reference."""

    def hooks(self) -> Sequence[LatePatch]:
        return (
            LatePatch("torch", "cuda.CUDAGraph.capture_end", self._on_capture_end, self.note_fault),
            LatePatch("torch", "cuda.CUDAGraph.replay", self._on_replay, self.note_fault),
            LatePatch(*private.CUDAGRAPH_RECORD, self._on_record, do_without),
        )

    def _on_capture_end(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        result = original(*args, **kwargs)
        with guard(self.note_fault):
            self._note_capture(args[0])
        return result

    def _note_capture(self, graph: Any) -> None:
        cause = _who_captured()
        if cause is None:
            return
        number = self._number(graph)
        again = self._local.again
        if again is None and number in self._captured:
            again = "the same CUDAGraph was captured again"
        self._captured.add(number)
        self.note(Captured(number, cause, again=again, stack=stack_here()))

    def _number(self, graph: Any) -> int:
        """Return the number of a CUDA graph of this process, from 1."""
        key = id(graph)
        numbered = self._numbers.get(key)
        if numbered is None or numbered[0]() is not graph:  # an id is used again
            reference = weakref.ref(graph, lambda _: self._numbers.pop(key, None))
            numbered = self._numbers[key] = (reference, next(self._count))
        return numbered[1]

    def _on_replay(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        result = original(*args, **kwargs)
        with guard(self.note_fault):
            frame = caller()
            while frame is not None and is_machinery(frame):
                frame = frame.f_back
            place = (None, 0) if frame is None else (frame.f_code, frame.f_lasti)
            key = (self._number(args[0]), *place)
            self._replays.append(self._interned.setdefault(key, key))
        return result

    def _on_record(self, original: Hook, *args: Any, **kwargs: Any) -> Any:
        """Handle ``record_function(manager, new_inputs, function_id)`` of inductor's trees."""
        __tracebackhide__ = True
        before = self._local.again
        try:
            self._local.again = or_else(None, _why_again, *args[:3])
            return original(*args, **kwargs)
        finally:
            self._local.again = before

    def mark_runs(self) -> int:
        return len(self._replays)

    def leave(self) -> None:
        super().leave()
        if not self._windows:
            self._replays.clear()
            self._interned.clear()

    def with_runs(self, record: Record | None, mark: Any, places: Places) -> Record | None:
        """Return the record with the replays since ``mark``, by graph and line."""
        ran = Counter(self._replays[mark:])
        if record is None and not ran:
            return None
        record = record or record_of(LAYER)
        runs = [_runs(key, times, places) for key, times in ran.items()]
        return merge([replace(record, executions={LAYER: ran.total()}, execution_list=tuple(runs))])

    def explain(self, events: Sequence[Any], places: Places) -> Record:
        return record_of_graphs(
            LAYER,
            (
                graph_called(
                    Graph(LAYER, str(event.number), event.cause), event.stack, event.again, places
                )
                for event in events
            ),
        )


def _frames_of_torch() -> Iterator[tuple[str, str]]:
    """Yield file and function of the frames of torch above a hook, the innermost first."""
    for frame in outwards(caller()):
        if not is_machinery(frame):
            return
        yield frame.f_code.co_filename.replace("\\", "/"), frame.f_code.co_name


def _who_captured() -> str | None:
    """Return the cause of a capture; None for the empty graph that keeps inductor's pool alive."""
    for file, function in _frames_of_torch():
        if file.endswith("_inductor/cudagraph_trees.py") and function == "__init__":
            return None
        if function in _CAUSES:
            return _CAUSES[function]
    return "captured"


def _why_again(manager: Any, inputs: Any, function: Any) -> str | None:
    """Return why inductor records a function again after the same graph; None the first time."""
    node = manager.current_node
    children = manager.roots if node is None else node.children
    if not (nodes := children.get(function)):
        return None
    # Each recording did not fit, or it would have been replayed: we ask the latest for its reason.
    _, reason = nodes[-1].check_invariants(inputs)
    return str(reason()).strip().partition("\n")[0][:200] or "its inputs changed"


def _runs(key: Replay, times: int, places: Places) -> LineRuns:
    number, code, instruction = key
    where: Frame = NOWHERE if code is None else places.frame(*line_of(code, instruction))
    return LineRuns(LAYER, "call", str(number), count=times, where=where)
