"""Reads a log once, from beginning to end, and keeps what reports need.

Each line goes to the readers that know its form, and what they find goes on::

    a record of torch's log        TorchLines -> Dynamo -> Origins.add_fx_graph
    a report of torch_xla          XlaLines -> Origins.add_compilation
    a header, a module, an error   TTGraphs -> Origins.begin_program, end_program

So ``Origins`` meets everything in the order of the log, which shows what each device graph comes
from. ``read`` returns a ``Reading``, which ``logs.report``, ``logs.completeness`` and the pages of
``graphbreak analyze`` show. A graph of the TT compiler is a ``Program`` (``layers.tt.programs``)
until it becomes a ``Graph`` of the record; a log with END markers and no headers has no programs,
only a ``Guess`` at their number (``markers``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from msgspec import Struct

from pytest_graphbreak.layers.tt.programs import Program
from pytest_graphbreak.logs import torch_lines
from pytest_graphbreak.logs.dynamo import Dynamo
from pytest_graphbreak.logs.locations import Locations
from pytest_graphbreak.logs.markers import Guess, TTLog
from pytest_graphbreak.logs.origin import Origins
from pytest_graphbreak.logs.sources import Sources
from pytest_graphbreak.logs.torch_lines import TorchLines, TorchRecord, XlaLines
from pytest_graphbreak.model.items import Graph
from pytest_graphbreak.model.merging import merge, record_of
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.text.lines import Source

OnProgress = Callable[[int, int | None], None]

OFTEN: Final = 10_000
"""After so many lines progress is reported."""

PLACES_SHOWN: Final = 5
"""The number of source lines that are kept for each device graph."""


class Reading(Struct, frozen=True):
    """The contents of one log."""

    path: str
    fault: str | None
    """Why the end of the log could not be read; None if it was."""
    tt: TTGraphs
    """What the TT compiler printed."""
    guesses: dict[str, Guess]
    """By rank, the number of graphs that END markers without headers stand for."""
    logged: frozenset[str]
    """The kinds of records of Dynamo (``Dynamo.seen``): ``tracing``, ``recompiles``, ..."""
    record: Record
    """All layers, as a live window would have recorded them."""
    origins: Counter[tuple[str, str]]
    """The graphs of the deepest layer by maker and cause (``Origins.totals``)."""
    processes: int
    script: str
    """The file that was run, if a stack shows it, else ""."""

    @property
    def size(self) -> int:
        """The bytes that were read, unpacked."""
        return self.tt.size

    @property
    def is_unreadable(self) -> bool:
        """Whether the log is so damaged that nothing was read."""
        return self.fault is not None and not self.size

    @property
    def is_certain(self) -> bool:
        """Whether the number of device graphs was counted and nothing contradicts it."""
        tt = self.tt
        return bool(tt.headers) and not (tt.unsure_copies or tt.damaged or tt.programs.headless)

    @property
    def graphs(self) -> int:
        """The number of graphs that the TT compiler began."""
        if self.tt.headers:
            return self.tt.programs.attempted
        return sum(guess.graphs for guess in self.guesses.values())

    @property
    def completed(self) -> int:
        """The number of graphs that the TT compiler lowered completely."""
        if self.tt.headers:
            return self.tt.programs.completed
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
            reader.add_line(line)
        return reader.finish(source.fault)


class TTGraphs(TTLog):
    """What the TT compiler printed, with the origin of each graph and the places of its module.

    ``TTLines``, its base, calls ``on_begin`` at the first header of a graph, ``on_text`` for each
    line of its first module, and ``on_close`` at the end of that: it names the graph and the lines
    of source. ``names_files``: a module of the log names source files.
    """

    def __init__(self, sources: Sources, origins: Origins) -> None:
        super().__init__()
        self.names_files = False
        self._sources = sources
        self._origins = origins
        self._locations = Locations()

    def on_begin(self, program: Program) -> None:
        self._origins.begin_program(program)
        self._locations = Locations()

    def on_text(self, program: Program, text: str) -> None:
        self._locations.feed(text)

    def on_close(self, program: Program) -> None:
        places, program.module = self._locations.places(self._sources.is_user)
        self.names_files = self.names_files or self._locations.names_files
        program.places = tuple(
            (self._sources.frame(*place), ops) for place, ops in places.most_common(PLACES_SHOWN)
        )
        self._origins.end_program(program)


class _Reader:
    """One pass over one log: ``read`` calls ``add_line`` for each line, and ``finish`` once."""

    def __init__(self, path: str, sources: Sources) -> None:
        self._path = path
        self._dynamo = Dynamo(sources)
        self._origins = Origins(sources)
        self._tt = TTGraphs(sources, self._origins)
        self._torch = TorchLines(self._take_record)
        self._xla = XlaLines(self._origins.add_compilation)

    def add_line(self, line: str) -> None:
        """Take the next line. Torch comes first: a device graph follows what it printed before.

        Most lines are of no reader, and a search for a few letters is faster than any.
        """
        if torch_lines.RECORD_HINT in line or self._torch.is_waiting:
            self._torch.add_line(line)
        self._tt.add_line(line)
        if torch_lines.REPORT_HINT in line:
            self._xla.add_line(line)

    def finish(self, fault: str | None) -> Reading:
        self._torch.finish()
        self._tt.finish()
        guesses = self._tt.guesses()
        dynamo = self._dynamo.record() if self._dynamo.seen else None
        layers = [dynamo, self._origins.record(), self._tt_layer(guesses)]
        ranks = {program.rank for program in self._tt.programs.list}
        return Reading(
            path=self._path,
            fault=fault,
            tt=self._tt,
            guesses=guesses,
            logged=frozenset(self._dynamo.seen),
            record=merge([layer for layer in layers if layer is not None]),
            origins=self._origins.totals(has_tt=bool(self._tt.headers)),
            script=self._dynamo.script,
            processes=max(self._dynamo.processes, len(ranks), 1),
        )

    def _take_record(self, record: TorchRecord) -> None:
        if record.where.endswith("symbolic_shapes.py"):
            if not record.id:
                self._origins.add_export(record.rank)
        elif logged := self._dynamo.take(record):
            self._origins.add_fx_graph(logged)
        if "tracing" in self._dynamo.seen:
            self._origins.is_dynamo_logged = True

    def _tt_layer(self, guesses: dict[str, Guess]) -> Record | None:
        programs = self._tt.programs
        if self._tt.headers:
            several = len({(program.rank, program.thread) for program in programs.list}) > 1
            graphs = [_graph(program, several) for program in programs.list]
            return record_of("tt", graphs=programs.attempted, graph_list=graphs)
        if guesses:
            number = sum(guess.graphs for guess in guesses.values())
            return record_of("tt", graphs=number)
        return record_of("tt") if self._tt.levels else None


def _graph(program: Program, several: bool) -> Graph:
    """Return a program as a graph of the record; its reason also says how it failed."""
    end = ""
    if program.ended == "failed":
        end = f"failed after {program.last}" + (f": {program.error}" if program.error else "")
    elif program.ended == "unfinished":
        end = f"the log ends after {program.last}"
    parts = {"rank": program.rank, "thread": program.thread}
    who = " ".join(f"{name} {part}" for name, part in parts.items() if part)
    return Graph(
        "tt",
        program.name or f"graph {program.number}",
        program.origin.cause,
        sources=program.origin.sources,
        process=who if several and who else None,
        where=program.place,
        reason="; ".join(filter(None, (program.origin.reason, end))),
        module=program.module or None,
        seconds=program.seconds,
    )
