"""Puts the stages that the TT compiler printed together into graphs.

``log`` finds them and calls ``Programs``, which makes a ``Program`` of the stages of each graph.

A thread compiles one graph at a time, so a header belongs to the last graph of its thread. If
several processes print with the same thread id and no rank, stages of two graphs overlap; then a
stage goes to the last graph that still lacks it, and ``overlapped`` says that the failed graph is a
guess::

    vhlo    graph 1
    vhlo    graph 2
    ttir    graph 2
    ttir    graph 1, since graph 2 has one: they overlap
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from msgspec import Struct

from pytest_graphbreak.model.items import NOWHERE, Frame

# The stages that the TT compiler prints for one graph (``headers`` has their forms). One graph has
# had 6, 7, 8 and 9 stages; nothing here counts on a number.

FIRST: Final = "vhlo"
"""The stage that every compilation begins with: each such stage is one graph attempted."""

COMPLETE: Final = "ttnn"
"""The stage that is printed when the compiler has lowered the graph."""

LOWERED: Final = frozenset((COMPLETE, "ttnn_runtime"))
"""The stages of a graph that was lowered; the header of one may be damaged."""

ORDER: Final = {
    name: index
    for index, name in enumerate(
        (
            FIRST,
            "shlo",
            "shlo_frontend",
            "shlo_compiler",
            "shlo_set_mesh_attr",
            "shlo_compiler_cleaned",
            "ttir",
            COMPLETE,
            "ttnn_runtime",
        )
    )
}


def follows(stage: str, last: str) -> bool:
    """Return whether ``stage`` can come after ``last`` in one compilation; unknown names can."""
    if stage in ORDER and last in ORDER:
        return ORDER[stage] > ORDER[last]
    return stage != FIRST


KEPT: Final = 5_000
"""The most graphs kept one by one. All are counted; memory must not grow with the log."""

WAITING: Final = 64
"""The most unfinished graphs of one thread that later stages may still belong to.

There is more than one only where several processes print with one thread id (see above).
"""

RESHARD: Final = "ReplicateShardedData"
"""The module name of the graphs with which torch_xla gathers a sharded tensor."""


class Origin(Struct, frozen=True):
    """Why a graph exists, by what precedes it in a log (``logs.origin`` finds it).

    ``maker`` is who made it, empty if nobody looked. ``cause`` is the cause that is shown,
    ``counted_as`` the cause that it is counted by. ``sources`` are names of graphs of the layer
    above.
    """

    maker: str = ""
    cause: str = "other"
    counted_as: str = "other"
    reason: str = ""
    sources: tuple[str, ...] = ()
    where: Frame = NOWHERE


class Program(Struct):
    """One graph in the TT compiler. What is after ``times`` only the reader of a log fills in."""

    number: int
    """From 1 in the order of the log."""
    rank: str = ""
    """The process that printed it, as its launcher names it; empty for one process."""
    thread: str = ""
    offset: int = 0
    """The place of its first header in the log, in bytes."""
    stages: tuple[str, ...] = ()
    name: str = ""
    """The name of its module: ``SyncTensorsGraph.12``; empty in a log of headers alone."""
    error: str = ""
    """What the compiler said when it failed."""
    loaded: bool = False
    """Codegen loaded a saved graph: it has no later stages."""
    ended: str = ""
    """``completed``, ``failed`` or ``unfinished``; empty until then."""
    times: tuple[float | None, float | None] = (None, None)
    """The times of its first header and its last, in seconds; None for a header without."""

    places: tuple[tuple[Frame, int], ...] = ()
    """The lines of source that most of it comes from, most first, with the number of kinds of ops
    of each."""
    module: str | None = None
    """The path of the nn.Module that it comes from."""
    origin: Origin = Origin()

    @property
    def seconds(self) -> float | None:
        """The seconds from its first header to its last; None for one header, or without times."""
        began, last = self.times
        if began is None or last is None or last < began or len(self.stages) == 1:
            return None
        return round(last - began, 3)

    @property
    def complete(self) -> bool:
        """Whether it was lowered to the end, or loaded instead of compiled (codegen load)."""
        return self.loaded or not LOWERED.isdisjoint(self.stages)

    @property
    def last(self) -> str:
        return self.stages[-1] if self.stages else ""

    @property
    def place(self) -> Frame:
        """The best place known: from its own text, else from its origin."""
        return self.places[0][0] if self.places else self.origin.where

    @property
    def reshard(self) -> bool:
        return self.name.startswith(RESHARD)


class _Thread(Struct):
    """The last graph of a thread, and earlier ones that later stages may still belong to: another
    process may print with the same thread id."""

    current: Program
    waiting: list[Program] = []


class Programs:
    """The programs of one log, in the order of their first headers."""

    def __init__(self) -> None:
        self.attempted = 0
        """All; each ends as one of these three."""
        self.completed = 0
        self.failed: Counter[str] = Counter()
        """By their last stage."""
        self.unfinished: Counter[str] = Counter()
        """By their last stage: the log ended before they did."""
        self.resharding = 0
        """How many gather a sharded tensor (``RESHARD``)."""
        self.shapes: Counter[tuple[str, ...]] = Counter()
        """By their lists of stages."""
        self.headless = 0
        """Stages of graphs that began before the log."""
        self.lost = 0
        """Graphs whose first header is missing in the middle of the log. They are counted: nothing
        else begins with a later stage."""
        self.overlapped = False
        """Stages of two graphs overlapped: which of them failed is a guess."""
        self.list: list[Program] = []
        """The first ``KEPT`` of them."""
        self._threads: dict[tuple[str, str], _Thread] = {}
        """By rank and thread."""
        self._sequences: dict[tuple[str, ...], tuple[str, ...]] = {}
        """Each list of stages once: most graphs have the same, and are kept with it."""

    def add_stage(
        self, rank: str, thread: str, name: str, offset: int, time: float | None = None
    ) -> Program | None:
        """Add a module printed at a ``time``; return its program, None if that began before."""
        key = (rank, thread)
        state = self._threads.get(key)
        if state is None and name != FIRST:
            self.headless += 1
            return None
        program = None if name == FIRST or state is None else self._owner(state, name)
        if program is None:
            self.lost += name != FIRST
            program = self._begin(state, key, offset, name)
            program.times = (time, None)
            return program
        program.times = (program.times[0], time)
        longer = (*program.stages, name)
        program.stages = self._sequences.setdefault(longer, longer)
        return program

    def add_error(self, rank: str, thread: str, message: str) -> None:
        """Take an error: it belongs to the last graph of that thread, if that is not done."""
        state = self._threads.get((rank, thread))
        if state and not state.current.complete and not state.current.error:
            state.current.error = message

    def add_load(self, rank: str, thread: str) -> None:
        """Note that codegen loaded a saved graph: it ends here, without ttir and ttnn."""
        state = self._threads.get((rank, thread))
        if state:
            state.current.loaded = True

    def finish(self) -> None:
        """End the log: whatever is not complete has failed, or is cut off by the end."""
        for thread in self._threads.values():
            for program in thread.waiting:
                self._close(program, "failed")
            self._close(thread.current, "failed" if thread.current.error else "unfinished")
        self._threads.clear()

    def _begin(
        self, state: _Thread | None, key: tuple[str, str], offset: int, stage: str
    ) -> Program:
        self.attempted += 1
        first = (stage,)
        program = Program(self.attempted, *key, offset, self._sequences.setdefault(first, first))
        if self.attempted <= KEPT:
            self.list.append(program)
        if state is None:
            self._threads[key] = _Thread(program)
            return program
        # One that said no error and is not complete may belong to another process with this thread
        # id, which is still compiling it: its later stages are looked for.
        previous, state.current = state.current, program
        if previous.complete or previous.error:
            self._close(previous, "failed")
        else:
            state.waiting.append(previous)
            if len(state.waiting) > WAITING:
                self._close(state.waiting.pop(0), "failed")
        return program

    def _owner(self, state: _Thread, name: str) -> Program | None:
        """Return the graph that a later stage belongs to: the last one that still lacks it."""
        if _lacks(state.current, name):
            return state.current
        for program in reversed(state.waiting):
            if _lacks(program, name):
                self.overlapped = True
                return program
        return None

    def _close(self, program: Program, incomplete: str) -> None:
        program.ended = "completed" if program.complete else incomplete
        self.shapes[program.stages] += 1
        self.resharding += program.reshard
        if program.ended == "completed":
            self.completed += 1
        elif program.ended == "failed":
            self.failed[program.last] += 1
        else:
            self.unfinished[program.last] += 1


def _lacks(program: Program, name: str) -> bool:
    """Return whether a stage can be the next one of a graph."""
    return name not in program.stages and follows(name, program.last)
