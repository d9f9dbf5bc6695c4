"""Puts the stages that the TT compiler printed together into graphs.

``log`` finds them: the forms of header lines are here, since they name the stages.

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

import re
from collections import Counter
from typing import Final, NamedTuple

from msgspec import Struct

from pytest_graphbreak.model.items import NOWHERE, Frame
from pytest_graphbreak.text import prefixes

# The stages that the TT compiler prints for one graph, in every form they have had.
#
# Source: tt-xla, ``ModuleBuilder::printModule`` and its callers
# (pjrt_implementation/src/api/module_builder/module_builder.cc), and its history:
# ``VHLO Module:`` until 2025-10-22, ``MLIR Module vhlo:`` since. One graph has had
# 6, 7, 8 and 9 stages; nothing here counts on a number.

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

END: Final = "------------------ END OF MLIR MODULE ------------------"
"""The raw text after each module, since 2025-10-13; never in TTXLA_LOGGER_FILE."""

FILE: Final = "module_builder.cc:"
"""The part of the preamble of every header, old and new, that finds them all."""

BARE: Final = "MLIR Module "
"""A header whose preamble was cut away (by ``cut``, ``sed``, a log collector)."""

_ENDS = r":(?=[\s\x1b]|\Z)"
_LINE: Final = re.compile(
    r"module_builder\.cc:\d+ +(\w+)\| (?:\.   )*"
    r"(?:(?:MLIR Module (?P<new>\w+)|(?P<old>VHLO|SHLO|TTIR|TTNN) Module(?P<after> after \w+)?"
    r"(?: StableHLO pipeline)?)" + _ENDS + r")?",
    re.A,
)
"""A line of the plugin from its file on: its level, and of a header the name of the stage.

Headers of today and of before 2025-10-22, and a line that is no header; ``.   `` is loguru's
indentation::

    module_builder.cc:1278     1| MLIR Module ttir:
    module_builder.cc:1278     1| SHLO Module after frontend StableHLO pipeline:
    module_builder.cc:1278   ERR| .   Failed to run stablehlo pipeline
"""
_BARE_LINE: Final = re.compile(r"MLIR Module (\w+)" + _ENDS, re.A)
"""A header of today without its preamble: ``MLIR Module ttir:``."""
_BARE_AFTER: Final = (
    "| ",  # docker compose: worker-1  | MLIR Module ttir:
    ">:",  # mpirun: [1,0]<stderr>:MLIR Module ttir:
    "]:",  # torchrun: [rank0]:MLIR Module ttir:
    "Z ",  # a CI's time stamp: 2025-11-21T12:00:01Z MLIR Module ttir:
    "m",  # the end of a colour
)
"""How the text ends that may be before such a header in its line; other text is a sentence."""
_OLD: Final = {  # the stages by their names in headers until 2025-10-22
    ("VHLO", ""): FIRST,
    ("SHLO", ""): "shlo",
    ("SHLO", " after frontend"): "shlo_frontend",
    ("SHLO", " after compiler"): "shlo_compiler",
    ("TTIR", ""): "ttir",
    ("TTNN", ""): COMPLETE,
}


class Message(NamedTuple):
    """A line of the plugin's logger: its level, the stage of a header or "", and its text."""

    level: str
    stage: str
    text: str


def read_message(line: str, at: int) -> Message | None:
    """Return the loguru line whose file name begins at ``at``; None if it is not such a line."""
    match = _LINE.match(line, at)
    if match is None:
        return None
    level = match[1]
    if match["new"]:
        return Message(level, match["new"], line[match.start("new") :])
    if match["old"]:
        stage = _OLD.get((match["old"], match["after"] or ""), "")
        return Message(level, stage, line[match.start("old") :])
    return Message(level, "", line[match.end() :])


def is_torn(message: str) -> bool:
    """Return whether a message is a part of a header that another writer cut in two.

    It is the beginning of one (``MLIR Mod``), or goes on as one does (``MLIR xyz``).
    """
    text = message[: len(BARE)].partition("\n")[0].rstrip("\r")
    return text.startswith(BARE[:4]) or (len(text) > 1 and BARE.startswith(text))


def bare_header(line: str, at: int) -> str:
    """Return the stage of a header that has lost its preamble; empty for other such text."""
    before = line[max(0, at - 8) : at]
    if before and not before.endswith(_BARE_AFTER):
        return ""
    match = _BARE_LINE.match(line, at)
    return match[1] if match else ""


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
    """Why a graph exists, by what precedes it in a log (see ``logs.origin``).

    ``maker`` is who made it, empty if nobody looked. ``cause`` is that of the graph, ``counted_as``
    the cause that it is counted by. ``sources`` are names of graphs of the layer above.
    """

    maker: str = ""
    cause: str = "other"
    counted_as: str = "other"
    reason: str = ""
    sources: tuple[str, ...] = ()
    where: Frame = NOWHERE


class Program(Struct):
    """One graph in the TT compiler. ``number`` counts from 1 in the order of the log.

    ``offset`` is the place of its first header, in bytes; ``times`` are those of its first and
    last, in seconds, None for a header without. ``loaded``: codegen loaded a saved graph. ``ended``
    is ``completed``, ``failed`` or ``unfinished``, empty until then. ``places`` are the lines of
    source that most of it comes from, most first, with the number of kinds of ops of each;
    ``module`` is the path of the nn.Module.
    """

    number: int
    rank: str = ""
    thread: str = ""
    offset: int = 0
    stages: tuple[str, ...] = ()
    name: str = ""
    error: str = ""
    loaded: bool = False
    ended: str = ""
    places: tuple[tuple[Frame, int], ...] = ()
    module: str | None = None
    origin: Origin = Origin()
    times: tuple[float | None, float | None] = (None, None)

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
    """The last graph of a thread, and earlier ones that later stages may still belong to."""

    current: Program
    waiting: list[Program] = []


class Programs:
    """The programs of one log, in the order of their first headers.

    ``attempted`` counts all; each ends as one that is ``completed``, ``failed`` or ``unfinished``,
    these two by their last stage, and ``shapes`` has the lists of stages. ``list`` has the first.
    ``headless``: stages of graphs that began before the log; ``lost``: graphs whose first header
    is missing in the middle of it. They are counted: nothing else begins with a later stage.
    """

    def __init__(self) -> None:
        self.attempted = 0
        self.completed = 0
        self.resharding = 0
        self.failed: Counter[str] = Counter()
        self.unfinished: Counter[str] = Counter()
        self.shapes: Counter[tuple[str, ...]] = Counter()
        self.headless = 0
        self.lost = 0
        self.overlapped = False
        self.list: list[Program] = []
        self._threads: dict[tuple[str, str], _Thread] = {}
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
    return name not in program.stages and follows(name, program.last)


_NAME: Final = re.compile(r'"[^"\r\n]{0,256}"|[^\s{(]{1,256}', re.A)
"""The name after ``module @``, in quotes or up to what follows it."""


def module_name(text: str) -> str:
    """Return the name of the first named module in a text (``SyncTensorsGraph.12``)."""
    at = text.find("module @")
    match = _NAME.match(text, at + len("module @")) if at >= 0 else None
    return prefixes.text(match[0]).strip('"') if match else ""
