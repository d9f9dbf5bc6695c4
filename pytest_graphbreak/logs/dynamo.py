"""Reads Dynamo's records in a log: graphs, breaks, recompiles, functions left to eager.

``reading`` hands it the records that ``torch_lines`` found, in their order. Frames, graphs and
recompiles are read here, breaks and what was left to eager in ``dynamo_breaks``. A frame that
Dynamo began with is a ``LoggedAttempt``, kept by its compile id in the ``Process`` that wrote the
record (``dynamo_attempts``). The layer's own ``EventReader`` makes the same objects, causes and
words of it as of what the live observer saw.

Two things that the observer sees are in no log: breaks that torch before 2.10 does not report, and,
with ``TORCH_LOGS=+dynamo`` alone, the guards that failed.

A log may begin anywhere, and have only some kinds of records: so each may be the first that is read
of its frame. Compile ids begin at ``0/0`` again where Dynamo was reset: a *round* of ids ends where
one is begun, or announced, for the second time (``Process.begin_round``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from pytest_graphbreak.layers.dynamo import messages
from pytest_graphbreak.layers.dynamo.events import Made
from pytest_graphbreak.layers.dynamo.explain import LAYER, EventReader
from pytest_graphbreak.logs.dynamo_attempts import (
    KEPT,
    Guards,
    LoggedAttempt,
    Process,
    ends_in_torch,
    is_recompile,
    parent,
)
from pytest_graphbreak.logs.dynamo_breaks import LONGEST, LoggedBreaks
from pytest_graphbreak.logs.sources import Sources
from pytest_graphbreak.logs.torch_lines import TorchRecord
from pytest_graphbreak.model import stacks
from pytest_graphbreak.model.items import Graph, Recompile
from pytest_graphbreak.model.merging import record_of
from pytest_graphbreak.model.record import Frames, Record
from pytest_graphbreak.model.stacks import Line

_EXPORT: Final = "dynamo_normalization_capturing_compiler"
"""The compiler function of strict torch.export (torch/_dynamo/eval_frame.py)."""

_STARTED: Final = re.compile(
    r"(?:Step 1: )?torchdynamo start (compiling|tracing) "
    r"(<[^>\n]*>|\S+) (.+?):(\d{1,9})(?=,|$)",
    re.M,
)
"""``torchdynamo start compiling forward /home/me/model.py:33, stack (elided 5 frames):``, or
``Step 1: torchdynamo start tracing forward /home/me/model.py:33``."""
_BUCKETS: Final = re.compile(r"\s*DDPOptimizer used bucket cap \S+ and created (\d{1,9}) buckets")
"""The line before the backend is called for each bucket (torch/_dynamo/backends/distributed.py)."""
_DONE: Final = "Step 2: done compiler function"
"""How the record of a graph begins that the backend has made."""
_RECOMPILED: Final = re.compile(
    r"Recompiling function (<[^>\n]*>|\S+) in ([^\n]*):(\d{1,9})\n((?s:.*))"
)
"""``Recompiling function f in /home/me/model.py:63``; the guards are on the lines that follow."""
_GUARD: Final = re.compile(r"^ *- (!?[\d/]+: .*)$", re.M)
"""``    - 0/0: tensor 'x' size mismatch at index 0. expected 4, actual 5``"""
_LIMIT: Final = re.compile(
    r"hit config\.(\w+) \((\d+)\)(?:\n *function: '([^'\n]*)' \(([^\n]*):(\d{1,9})\))?"
)
"""``torch._dynamo hit config.recompile_limit (3)``, and on the next line
``   function: 'f' (/home/me/model.py:86)``."""
_REFUSED: Final = re.compile(r"WON'T CONVERT (<[^>\n]*>|\S+) ([^\n]+) line (\d{1,9})")
"""``WON'T CONVERT f /home/me/model.py line 56``"""
_IN_LOOP: Final = "Skipping frame because there is a graph break"
"""Words of a record of its own, after which a frame is left to eager."""

_GRAPHBREAK: Final = re.compile(r"(?:/bin/graphbreak|/pytest_graphbreak/__main__\.py)$")

NO_GUARD: Final = "which guard failed is not in the log"


class LoggedGraph(NamedTuple):
    """A graph that was just made, for ``origin``, which links device graphs to it."""

    rank: str
    graph: Graph
    export: bool


class Dynamo:
    """Collects what Dynamo logged: ``take`` is called for each record of a log, then ``record``."""

    def __init__(self, sources: Sources) -> None:
        # All are counted here; of each kind the first ``KEPT`` are kept, too.
        self.graphs = 0
        self.recompiles = 0
        self.attempted = 0
        """The frames that Dynamo began with."""
        self.compiled = 0
        """The frames of which at least one graph was made."""
        self.seen: set[str] = set()
        """Which kinds of records there were.

        ``compiling`` (only with ``+dynamo``), ``tracing``, ``graph_breaks``, ``recompiles``.
        """
        self.script = ""
        """The outermost file of the first stack."""
        self._explain = EventReader(sources)
        self._processes: dict[tuple[str, str], Process] = {}
        """By rank and process id."""
        self._breaks = LoggedBreaks(self._explain)
        self._recompiles: dict[tuple[str, str], Recompile] = {}
        """By the label of the process and the name of the attempt."""
        self._graphs: list[Graph] = []

    @property
    def processes(self) -> int:
        return len(self._processes)

    def take(self, record: TorchRecord) -> LoggedGraph | None:
        """Read one record of the log; return the graph that it reports, if any."""
        if "_dynamo/" not in record.where:
            return None
        process = self._process(record)
        if record.artifact == "graph_breaks":
            self.seen.add("graph_breaks")
            self._break(process, record)
        elif record.artifact.startswith("recompiles"):
            self.seen.add("recompiles")
            self._recompile(process, record)
        elif match := _STARTED.match(record.text):
            self._start(process, record, match)
        elif match := _BUCKETS.match(record.text):
            if attempt := process.attempts.get(record.id):
                attempt.buckets = int(match[1])
        elif record.text.startswith(_DONE):
            return self._graph(process, record)
        elif match := _LIMIT.search(record.text):
            self._limit(process, record.id, match)
        elif match := _REFUSED.match(record.text):
            self._read_refusal(process, record, match)
        elif _IN_LOOP in record.text[:100]:
            self._breaks.leave(process.attempts.get(record.id))
        return None

    def record(self) -> Record:
        """Return everything that was logged."""
        return record_of(
            LAYER,
            graphs=self.graphs,
            recompiles=self.recompiles,
            frames=Frames(self.attempted, self.compiled),
            breaks=self._breaks.breaks.values(),
            eager=self._breaks.eager.values(),
            recompile_list=self._recompiles.values(),
            graph_list=self._graphs,
        )

    def _process(self, record: TorchRecord) -> Process:
        key = (record.rank, record.pid)
        process = self._processes.get(key)
        if process is None:
            label = f"rank {record.rank}" if record.rank else f"process {record.pid}"
            process = self._processes[key] = Process(label)
        return process

    # Frames

    def _start(self, process: Process, record: TorchRecord, match: re.Match[str]) -> None:
        """Handle a frame that is compiled or traced: one attempt logs both, and traces retries.

        The lines of one attempt, with their tags: ``start compiling`` ``[0/0]``, ``start tracing``
        ``[0/0]``, and for each retry ``start tracing`` ``[0/0_1]``.
        """
        verb, name, file, line = match.groups()
        self.seen.add(verb)
        begun = process.attempts.get(record.id)
        is_retried = record.attempt > 0
        if verb == "tracing" and begun is not None and (is_retried or not begun.traced):
            begun.traced = True
            return
        if begun is not None:  # it begins once more: Dynamo was reset, and counts from 0/0 again
            process.begin_round()
        above = stacks.read(record.text[match.end() :])
        code = Line(file, int(line), name)
        if not process.attempts:
            # No compiled code calls the first frame: if its stack ends in torch, all stacks do.
            process.full_stacks = ends_in_torch(above)
        if not self.script:
            self.script = _script(above)
        above = tuple(stacks.since_test(above))
        attempt = LoggedAttempt.at_code(process.name(record.id), code, above)
        attempt.traced = verb == "tracing"
        attempt.parent = parent(process, code, above)
        attempt.export = any("/torch/export/" in frame.file for frame in above)
        process.add(record.id, attempt)
        self.attempted += 1
        if record.id in process.guards:  # said before the frame began
            self._note_recompile(process, record.id, attempt, process.guards[record.id])

    def _graph(self, process: Process, record: TorchRecord) -> LoggedGraph:
        """Handle a graph that the backend made, or, with DDP, one of each gradient bucket."""
        attempt = process.attempts.get(record.id)
        if attempt is None:  # the log begins later than this frame
            attempt = LoggedAttempt(process.name(record.id))
            process.add(record.id, attempt)
        if is_recompile(record.id) and attempt.guards is None:
            self._note_recompile(process, record.id, attempt, Guards((NO_GUARD,)))
        buckets, attempt.buckets = attempt.buckets, 1
        label = process.label if self.processes > 1 else None
        self.compiled += not attempt.graphs  # its first one
        graphs = []
        for bucket in range(buckets):
            event = Made(attempt, attempt.graphs, bucket=bucket, buckets=buckets)
            graphs.append(replace(self._explain.graph(event), process=label))
            attempt.graphs += 1
        self.graphs += buckets
        self._graphs += graphs[: KEPT - len(self._graphs)]
        # A device graph is linked to what Dynamo captured, whose name the first bucket has.
        export = attempt.export or _EXPORT in record.text
        return LoggedGraph(record.rank, graphs[0], export)

    # Breaks, and what was left to eager

    def _break(self, process: Process, record: TorchRecord) -> None:
        attempt = process.attempts.get(record.id)
        self._breaks.add(attempt, record.text)
        process.broken = attempt or process.broken

    def _read_refusal(self, process: Process, record: TorchRecord, match: re.Match[str]) -> None:
        """Handle an error that Dynamo kept to itself, leaving the function to eager.

        The record often has no compile id.
        """
        name, file, line = match.groups()
        code = Line(file, int(line), name)
        attempt = process.attempts.get(record.id) or process.begun_at(code)
        if attempt is None:
            attempt = LoggedAttempt.at_code(process.name(record.id), code)
        self._breaks.refuse(attempt, record.text)

    # Recompiles

    def _recompile(self, process: Process, record: TorchRecord) -> None:
        match = _RECOMPILED.match(record.text)
        if match is None:
            return
        name, file, line, failed = match.groups()
        announced = process.guards.get(record.id)
        if announced is not None:
            if announced.artifact != record.artifact:
                return  # both recompiles and recompiles_verbose are on
            process.begin_round()  # each id is announced once, until Dynamo is reset
        # Only the one that reports go by is kept: a log may have thousands of recompiles.
        telling = messages.most_telling(tuple(_GUARD.findall(failed)))
        texts = (telling[:LONGEST],) if telling else ()
        attempt = process.attempts.get(record.id)
        if attempt is None:
            code = Line(file, int(line), name)
            attempt = LoggedAttempt.at_code(process.name(record.id), code)
        self._note_recompile(process, record.id, attempt, Guards(texts, record.artifact))

    def _note_recompile(
        self, process: Process, id: str, attempt: LoggedAttempt, guards: Guards
    ) -> None:
        """Note that a frame is compiled again.

        It is called when the record announces it, often before the frame begins and its stack is
        known, and when the frame begins: counted the first time, described the last.
        """
        attempt.guards = guards.texts
        key = process.label, attempt.id
        if id not in process.guards:
            process.add_guards(id, guards)
            self.recompiles += 1
        elif key not in self._recompiles:
            return  # over ``KEPT``: counted, and not kept
        if key in self._recompiles or len(self._recompiles) < KEPT:
            self._recompiles[key] = self._explain.recompile(attempt)

    def _limit(self, process: Process, id: str, match: re.Match[str]) -> None:
        """Handle a recompile limit: the recompile that was announced did not happen."""
        what, limit, name, file, line = match.groups()
        if process.guards.pop(id, None):
            self.recompiles -= 1
            self._recompiles.pop((process.label, process.name(id)), None)
        attempt = process.attempts.get(id)
        if attempt is None:
            code = Line(file or "", int(line or 0), name or "")
            attempt = LoggedAttempt.at_code(process.name(id), code)
            process.add(id, attempt)
            if "tracing" in self.seen:  # else no frame is logged, and none is counted
                self.attempted += 1
        self._breaks.leave(attempt, messages.limit_reached(what, limit))


def _script(above: Sequence[Line]) -> str:
    """Return the file that was run: a stack's outermost module that is not `graphbreak run`."""
    modules = (line.file for line in above if line.name == "<module>")
    return next((file for file in modules if not _GRAPHBREAK.search(file)), "")
