"""Reads a log once, from beginning to end, and keeps what reports need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from msgspec import Struct

from pytest_graphbreak.layers.tt.log import Watcher
from pytest_graphbreak.layers.tt.programs import Program, Programs
from pytest_graphbreak.logs import dynamo_records, origin
from pytest_graphbreak.logs import xla as xlalog
from pytest_graphbreak.logs.dynamo import Dynamo
from pytest_graphbreak.logs.dynamo_records import Torch, TorchLines
from pytest_graphbreak.logs.origin import Origins
from pytest_graphbreak.logs.sources import Sources
from pytest_graphbreak.logs.tt import Guess, TTLog
from pytest_graphbreak.logs.xla import Locations, XlaLines
from pytest_graphbreak.model.merging import merge, record_of
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import Graph, Record
from pytest_graphbreak.text.lines import Source

OnProgress = Callable[[int, int | None], None]

OFTEN: Final = 10_000
"""After so many lines progress is reported."""

PLACES_SHOWN: Final = 5
"""The number of source lines that are kept for each device graph."""


class Signs(Struct, frozen=True):
    """What a log shows about how it was made.

    ``dynamo`` has the kinds of Dynamo's records, ``locations`` says whether modules name source
    files, and ``tt`` whether anything from the TT plugin was seen.
    """

    dynamo: frozenset[str]
    xla: bool
    locations: bool
    tt: bool


class Reading(Struct, frozen=True):
    """The contents of one log.

    ``size`` is in bytes, unpacked; ``fault`` says why its end could not be read. ``guesses`` are by
    rank, for END markers without headers. ``copies`` are header lines that occur again and were not
    counted, ``unsure_copies`` those that may be copies, ``damaged`` those that were cut in two.
    ``script`` is the file that was run, if a stack shows it.
    """

    path: str
    size: int
    fault: str | None
    programs: Programs
    guesses: dict[str, Guess]
    headers: int
    bare: int
    ends: int
    copies: int
    unsure_copies: int
    damaged: int
    signs: Signs
    record: Record
    origins: Counter[tuple[str, str]]
    processes: int
    script: str

    @property
    def is_unreadable(self) -> bool:
        """Whether the log is so damaged that nothing was read."""
        return self.fault is not None and not self.size

    @property
    def is_certain(self) -> bool:
        """Whether the number of device graphs was counted and nothing contradicts it."""
        is_whole = not (self.unsure_copies or self.damaged or self.programs.headless)
        return bool(self.headers) and is_whole

    @property
    def graphs(self) -> int:
        """The number of graphs that the TT compiler began."""
        if self.headers:
            return self.programs.attempted
        return sum(guess.graphs for guess in self.guesses.values())

    @property
    def completed(self) -> int:
        """The number of graphs that the TT compiler lowered completely."""
        if self.headers:
            return self.programs.completed
        return sum(guess.completed for guess in self.guesses.values())


def read(
    path: str,
    places: Places,
    on_progress: OnProgress | None = None,
    directories: Iterable[Path] = (),
) -> Reading:
    """Analyse one log. Raises the errors of ``Source``.

    Source lines are quoted from below the root of ``places`` and from ``directories``.
    ``on_progress`` is called from time to time with the number of bytes that were read and the size
    of the file, which is None if unknown.
    """
    reader = _Reader(path, Sources(places, directories))
    with Source(path) as source:
        for number, line in enumerate(source):
            if on_progress is not None and number % OFTEN == 0:
                on_progress(source.taken, source.size)
            reader.line(line)
        return reader.finish(source.fault)


class _Reader(Watcher):
    """One pass over one log, with the readers of all layers and their shared state."""

    def __init__(self, path: str, sources: Sources) -> None:
        self._path = path
        self._sources = sources
        self._tt = TTLog(self)
        self._dynamo = Dynamo(sources)
        self._origins = Origins(sources)
        self._torch = TorchLines(self._record)
        self._xla = XlaLines(self._origins.compilation)
        self._locations: dict[int, Locations] = {}
        self._located = False

    def line(self, line: str) -> None:
        """Take the next line. Torch first: its line may begin what a device graph follows."""
        if dynamo_records.HINT in line or self._torch.is_waiting:
            self._torch.line(line)
        self._tt.line(line)
        if xlalog.HINT in line:
            self._xla.line(line)

    def finish(self, fault: str | None) -> Reading:
        self._torch.finish()
        self._tt.finish()
        guesses = self._tt.guesses()
        dynamo = self._dynamo.record() if self._dynamo.seen else None
        layers = [dynamo, self._origins.record(), self._tt_layer(guesses)]
        signs = Signs(
            dynamo=frozenset(self._dynamo.seen),
            xla=bool(self._origins.compilations),
            locations=self._located,
            tt=bool(self._tt.headers or self._tt.ends or self._tt.levels),
        )
        programs = self._tt.programs
        return Reading(
            path=self._path,
            size=self._tt.size,
            fault=fault,
            programs=programs,
            guesses=guesses,
            headers=self._tt.headers,
            bare=self._tt.bare,
            ends=self._tt.ends,
            copies=self._tt.copies.count,
            unsure_copies=self._tt.unsure_copies,
            damaged=self._tt.damaged,
            signs=signs,
            record=merge([layer for layer in layers if layer is not None]),
            origins=self._origins.totals(bool(self._tt.headers)),
            script=self._dynamo.script,
            processes=max(self._dynamo.processes, len({p.rank for p in programs.list}), 1),
        )

    # What the TT compiler prints

    def on_begin(self, program: Program) -> None:
        self._origins.program(program)
        self._locations[program.number] = Locations()

    def on_text(self, program: Program, text: str) -> None:
        locations = self._locations.get(program.number)
        if locations is not None:
            locations.feed(text)

    def on_close(self, program: Program) -> None:
        locations = self._locations.pop(program.number, None)
        if locations is not None:
            places, program.module = locations.places(self._sources.is_user)
            self._located = self._located or locations.names_files
            program.places = tuple(
                (self._sources.frame(*place), ops)
                for place, ops in places.most_common(PLACES_SHOWN)
            )
        self._origins.end_program(program)

    # What others print

    def _record(self, record: Torch) -> None:
        if record.where.endswith("symbolic_shapes.py"):
            if not record.id:
                self._origins.add_export(record.rank)
        elif logged := self._dynamo.take(record):
            self._origins.take(logged)
        if "tracing" in self._dynamo.seen:
            self._origins.dynamo = True

    # Layers

    def _tt_layer(self, guesses: dict[str, Guess]) -> Record | None:
        programs = self._tt.programs
        if self._tt.headers:
            several = len({(program.rank, program.thread) for program in programs.list}) > 1
            graphs = [_graph(program, several) for program in programs.list]
            return record_of("tt", graphs=programs.attempted, graph_list=graphs)
        if guesses:
            number = sum(guess.graphs for guess in guesses.values())
            return record_of("tt", graphs=number, graph_list=_guessed_graphs(guesses))
        return record_of("tt") if self._tt.levels else None


def _graph(program: Program, several: bool) -> Graph:
    """Return a program as a graph of the record; its reason also says how it failed."""
    end = ""
    if program.ended == "failed":
        end = f"failed after {program.last}" + (f": {program.error}" if program.error else "")
    elif program.ended == "unfinished":
        end = f"the log ends after {program.last}"
    who = " ".join(
        part
        for part in (
            f"rank {program.rank}" if program.rank else "",
            f"thread {program.thread}" if program.thread else "",
        )
        if part
    )
    return Graph(
        "tt",
        program.name or f"graph {program.number}",
        program.cause,
        sources=program.sources,
        process=who if several and who else None,
        where=origin.place(program),
        reason="; ".join(filter(None, (program.why, end))),
        module=program.module or None,
        seconds=program.seconds,
    )


def _guessed_graphs(guesses: dict[str, Guess]) -> list[Graph]:
    """Return the graphs of a log without headers, each with a name and its progress."""
    graphs = []
    for rank, guess in guesses.items():
        for number, item in enumerate(guess.listed, 1):
            graphs.append(
                Graph(
                    "tt",
                    item.name or f"graph {number}",
                    "reshard" if item.name.startswith("ReplicateShardedData") else "other",
                    process=f"rank {rank}" if rank else None,
                    reason="" if item.complete else f"stopped after {item.stages} stages",
                )
            )
    return graphs
