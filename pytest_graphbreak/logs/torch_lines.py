"""Finds what torch and torch_xla printed among all lines of a log: records, and reports.

``TorchLines`` finds the records of ``TORCH_LOGS``, which ``logs.dynamo`` reads; ``XlaLines``, at
the end, the reports of ``PT_XLA_DEBUG_LEVEL`` (``layers.xla.reports``), for ``logs.origin``. Both
get the lines from ``logs.reading``.

A record is what one call of torch's logger printed, of one line or more. Each of its lines carries
the same prefix, so a record is found again when other processes print between its lines::

    V1121 02:45:57.377000 11638 torch/_dynamo/guards.py:5396] [0/1] [__recompiles] Recompiling ...
    V1121 02:45:57.377000 11638 torch/_dynamo/guards.py:5396] [0/1] [__recompiles]     triggered ...

The time has milliseconds only: two records of one moment are separated by their first words.

An artifact is what ``TORCH_LOGS`` can ask for by a name (``recompiles``); its records have that
name as a tag. Records without one are plain: they are found by words in their first line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from pytest_graphbreak.layers.xla.reports import CompileReport, Reader
from pytest_graphbreak.text import prefixes

_PREFIX: Final = re.compile(
    r"[VDIWEC]\d{4} \d\d:\d\d:\d\d\.\d{1,9} (?P<pid>\d+) "
    r"(?P<file>[^\s:\]]+):\d+\]"
    r"(?P<tags>(?: \[[^\]\s]*\])*)",
    re.A,
)
"""``V1121 02:45:57.377000 11638 torch/_dynamo/guards.py:5396] [0/1] [__recompiles]``"""
_ARTIFACT: Final = re.compile(r"\[__(\w+)\]", re.A)
"""The tag of an artifact of ``TORCH_LOGS``: ``[__recompiles]``."""
_ID: Final = re.compile(r"\[(!?\d{1,9}(?:/\d{1,9}){1,9}(?:_\d{1,9})?)\]", re.A)
"""The tag of a compile id, with the restart in it if any: ``[0/1]``, ``[0/1_1]``."""

RECORD_HINT: Final = ".py:"
"""What all prefixes have in common: a line without it is not looked at any further."""

_TAG: Final = "] [__"
_ARTIFACTS: Final = ("graph_breaks]", "recompiles")
"""The artifacts that are read: the other ones (bytecode, guards) are most of many logs."""

_MARKS: Final = (
    "_dynamo/convert_frame.py:",  # in the prefix: torch/_dynamo/convert_frame.py:1345]
    "torchdynamo start tracing",  # torchdynamo start tracing forward /home/me/model.py:12
    "Step 2: done compiler function",  # Step 2: done compiler function inductor
    "DDPOptimizer used bucket cap",  # and into how many parts DDP cuts the next graph
    "] create_env",  # torch/fx/experimental/symbolic_shapes.py: an export, which has no compile id
)
"""The marks in the first lines of the other records that are read.

Frames that begin, recompile limits and suppressed errors are all printed by
``convert_frame.py``, which prints little else.
"""

_SKIPPING: Final = " skipping: "
"""The mark of frames that Dynamo does not look at: half of some logs, and nothing follows them."""

_BEGIN: Final = re.compile(r"^(?:Graph break(?=:| \(| in user code)|Recompiling function)", re.M)
"""The beginning of a record. Names of breaks begin alike: "Graph break under ..." (torch 2.15)."""
_LONGEST: Final = 512 * 1024
"""The most characters that are kept of a record."""


class TorchRecord(NamedTuple):
    """One record, whole."""

    rank: str
    """The process as its launcher names it; empty without a launcher."""
    pid: str
    where: str
    """The file of torch that printed it: ``torch/_dynamo/guards.py``."""
    id: str
    """The compile id: ``0/1``."""
    attempt: int
    """How often Dynamo has restarted this compilation: 1 of ``0/1_1``."""
    artifact: str
    """The name that ``TORCH_LOGS`` knows it by; empty for a plain record."""
    text: str


class _Open:
    """A record whose last line may not have been read yet.

    ``ahead`` is the text before its prefix (a rank, a colour), ``prefix`` what all its lines share.
    """

    def __init__(self, ahead: str, prefix: re.Match[str], text: str) -> None:
        self.ahead = ahead
        self.rank = prefixes.rank(ahead)
        self.prefix = prefix
        self.shared = prefix[0]
        self.lines: list[str] = []
        self._size = 0
        self.add(text)

    def text_of(self, line: str) -> str | None:
        """Return the text of a line if it has the same prefix, else None."""
        at = line.find(self.shared, 0, prefixes.BEFORE + len(self.shared))
        if at < 0 or (line[:at] != self.ahead and prefixes.rank(line[:at]) != self.rank):
            return None
        return line[at + len(self.shared) :]

    def add(self, text: str) -> None:
        if self._size < _LONGEST:
            self.lines.append(text.removeprefix(" ").rstrip("\r\n"))
            self._size += len(text)

    @property
    def is_complete(self) -> bool:
        """Whether no lines are missing: a colon announces them, and a blank line ends them."""
        if " hit config." in self.lines[0]:
            return len(self.lines) > 1  # the second names the function
        return not self.lines[0].endswith(":") or not self.lines[-1]

    def record(self) -> TorchRecord:
        tags = self.prefix["tags"]
        number = _ID.search(tags)
        id, _, attempt = number[1].partition("_") if number else ("", "", "")
        artifact = _ARTIFACT.search(tags)
        return TorchRecord(
            rank=self.rank,
            pid=self.prefix["pid"],
            where=self.prefix["file"],
            id=id,
            attempt=int(attempt or 0),
            artifact=artifact[1] if artifact else "",
            text=prefixes.text("\n".join(self.lines)),
        )


class TorchLines:
    """Finds records and passes each, whole, to ``take``.

    A record of an artifact ends with the next record of its process. A plain record ends with the
    first line of anyone else, since the device graphs that follow are linked to it; ``is_waiting``
    says that a plain record is open.
    """

    def __init__(self, take: Callable[[TorchRecord], None]) -> None:
        self.is_waiting = False
        self._take = take
        self._open: dict[tuple[str, str], _Open] = {}
        """The record of each process that may go on, by rank and process id."""

    def add_line(self, line: str) -> None:
        """Take the next line with ``RECORD_HINT`` in it, or any next one while ``is_waiting``."""
        tag = line.find(_TAG)
        if not self.is_waiting and tag >= 0 and not _is_read(line, tag):
            return
        for process, record in self._open.items():
            text = record.text_of(line)
            if text is not None:
                if _BEGIN.match(text.removeprefix(" ")):
                    self._begin(process, _Open(record.ahead, record.prefix, text))
                else:
                    record.add(text)
                return
        if self.is_waiting:
            self._close_complete()
        if tag < 0:
            place = next((at for mark in _MARKS if (at := line.find(mark)) >= 0), None)
            if place is not None:
                self._find(line, place)
        elif _is_read(line, tag):
            self._find(line, tag)

    def finish(self) -> None:
        """End the log: nothing more will be added to the open records."""
        for process in list(self._open):
            self._close(process)

    def _find(self, line: str, at: int) -> None:
        """Begin the record whose first line has a mark (``_TAG``, ``_MARKS``) at a position."""
        begin = max(0, at - prefixes.REACH)
        # The mark may be in the prefix itself. The rest of that is searched, too: its tags.
        prefix = _PREFIX.search(line, begin, at + 64)
        if prefix is None or prefix.start() > at:
            return
        ahead = line[max(begin, prefix.start() - prefixes.BEFORE) : prefix.start()]
        process = prefixes.rank(ahead), prefix["pid"]
        if line.startswith(_SKIPPING, prefix.end()):
            self._close(process)
        else:
            self._begin(process, _Open(ahead, prefix, line[prefix.end() :]))

    def _begin(self, process: tuple[str, str], record: _Open) -> None:
        self._close(process)
        self._open[process] = record
        self.is_waiting = self.is_waiting or not _ARTIFACT.search(record.prefix["tags"])

    def _close_complete(self) -> None:
        """Close the records that wait only for the next line."""
        waiting = [
            (process, record)
            for process, record in self._open.items()
            if not _ARTIFACT.search(record.prefix["tags"])
        ]
        self.is_waiting = False
        for process, record in waiting:
            if record.is_complete:
                self._close(process)
            else:
                self.is_waiting = True

    def _close(self, process: tuple[str, str]) -> None:
        record = self._open.pop(process, None)
        if record is not None:
            self._take(record.record())


def _is_read(line: str, tag: int) -> bool:
    """Return whether the artifact at a ``tag`` of a line is one that is read."""
    return line.startswith(_ARTIFACTS, tag + len(_TAG))


# The reports of torch_xla, which ``PT_XLA_DEBUG_LEVEL`` asks for.

REPORT_HINT: Final = "Comp"
"""What all lines of the reports have in common: another line is not looked at any further."""
_ANALYSIS: Final = "Compilation Analysis: "
_HASH: Final = "Computation hash: "
_IN_A_SENTENCE: Final = ("Post ", "'", '"', "`")
"""What is before these words where they are no prefix: ``Post Compilation Analysis: ``."""


class XlaLines:
    """Finds the blocks of reports and passes each compilation to ``take(rank, report)``."""

    def __init__(self, take: Callable[[str, CompileReport], None]) -> None:
        self._take = take
        self._readers: dict[str, Reader] = {}

    def add_line(self, line: str) -> None:
        """Take the next line of the log that has ``REPORT_HINT`` in it."""
        at = line.find(_ANALYSIS)
        if at < 0:
            # Before the first report the words are somebody else's (TF_CPP_VMODULE prints them).
            at = line.find(_HASH) if self._readers else -1
        before = line[:at]
        if at < 0 or len(before) > prefixes.BEFORE or before.endswith(_IN_A_SENTENCE):
            return
        rank = prefixes.rank(before)
        reader = self._readers.setdefault(rank, Reader())
        for report in reader.feed(f"{prefixes.text(line[at:])}\n"):
            self._take(rank, report)
