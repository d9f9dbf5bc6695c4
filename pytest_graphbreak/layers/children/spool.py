"""The spool: child processes report to it what they compiled, and their test reads it.

Each process that compiled has a directory, within that of the process that started it. It is made
when a child compiles something, or loads a library that compiles without notice (torch_xla). If the
process 4711 of the test starts 4712, and that 4713, the directory of this one is::

    /tmp/graphbreak-4711-<machine>-<token>/4712-<token>/4713-<token>/

It holds:

``record``     everything so far, as JSON; replaced in one step
``compiling``  while a compilation is under way: the name of the process
``unseen``     why the process could not be watched
``runs``       how often compiled graphs ran: numbers of eight bytes each; the first is not 0 where
               there were too many lines
``lines``      what each number counts: a ``_CountedLine``, as JSON

A worker that lives on compiles nothing more, and so writes no record. So each run adds one to a
number in a file that is mapped into memory: no lock, no system call, and nothing is lost where the
process is killed.

A child (``process``) writes by its ``Node`` and ``RunCounts``, and ``observer`` calls ``read`` in
the process of the test. The directories go in three ways::

    sweep     as the last window closes: those of children that are gone
    remove    as the process of the test ends: all of them
    fresh     as the next process makes one: those of processes that were killed
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import mmap
import os
import platform
import re
import shutil
import stat
import tempfile
from array import array
from collections.abc import Iterator
from functools import cache

# Not by the module: a test may mock ``json.dumps``, and has it mocked still while it is torn down.
from json import dumps, loads
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pytest_graphbreak.model.forms import Data
from pytest_graphbreak.model.items import LineRuns
from pytest_graphbreak.model.layers import WAITED
from pytest_graphbreak.model.merging import merge
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.text.files import put

VARIABLE = "GRAPHBREAK_CHILDREN"
"""The environment variable that names the spool to child processes; JSON of ``About``."""

_SPOOL = re.compile(r"graphbreak-(\d+)-([0-9a-f]{8})-[0-9a-f]{12}")
"""A directory of a process: its id, ``_machine()`` and a token, ``graphbreak-4711-<8>-<12>``."""
_NODE = re.compile(r"\d+-")
"""A directory in it, of a process that this one started: ``4712-<8>``."""
_RECORD, _COMPILING, _UNSEEN, _RUNS, _LINES = "record", "compiling", "unseen", "runs", "lines"


class About(Data, frozen=True):
    """The settings that a child has to know.

    ``spool`` is the directory for its own, ``root`` what source files are named
    from, ``owner`` the process id of the test: when that is gone, nobody will
    read what a child writes. ``infra`` are files of the test's infrastructure,
    which are passed over when a place is named.
    ``waited`` are modules: the child is watched as soon as it imports one of them.
    """

    spool: str
    root: str
    owner: int
    infra: tuple[str, ...] = ()
    waited: tuple[str, ...] = WAITED

    def dump(self) -> str:
        return dumps(self.to_dict())

    @classmethod
    def load(cls, text: str) -> About:
        """Read what ``dump`` wrote. Raises ``ValueError`` for anything else."""
        return cls.from_dict(loads(text))


class _Report(Data, frozen=True):
    """The report of a process: its ``name`` and all that it compiled.

    ``final``: this is its last report. ``device``: it had a device open, on which more may be
    compiled without a report.
    """

    name: str = ""
    final: bool = False
    device: bool = False
    record: Record = Record()


class _CountedLine(Data, frozen=True):
    """One run of a line, and the position in ``runs`` of the number of these."""

    position: int
    run: LineRuns


class ProcessRecord(Struct, frozen=True):
    """The state that one process left in the spool.

    ``compiling`` says that it was in the middle of a compilation at its last
    report, ``alive`` whether it still runs, ``is_incomplete`` whether more may have been
    compiled than it reported: it has a device open, and its last report did not come.
    """

    node: str
    name: str
    record: Record
    compiling: bool
    alive: bool
    is_incomplete: bool
    unseen: str = ""


def fresh() -> str:
    """Return the path of a new directory of this process, not made yet; see the head."""
    token = os.urandom(6).hex()
    folder = tempfile.gettempdir()
    with contextlib.suppress(OSError, ValueError):
        _clear(folder)
    return os.path.join(folder, f"graphbreak-{os.getpid()}-{_machine()}-{token}")


@cache
def _machine() -> str:
    """Return a name of the place where process ids mean the same: this boot, this container."""
    identity = [_text(Path("/proc/sys/kernel/random/boot_id")), platform.node()]
    with contextlib.suppress(OSError):
        identity.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256("\n".join(identity).encode("utf-8", "replace")).hexdigest()[:8]


def _clear(folder: str) -> None:
    """Remove the directories of processes that were killed, unless a process below still runs."""
    for entry in os.scandir(folder):
        match = _SPOOL.fullmatch(entry.name)
        if match is None or match[2] != _machine() or is_alive(int(match[1])):
            continue
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid():
            sweep(entry.path)
            if not _nodes(entry.path):
                remove(entry.path)


class Node:
    """The directory of one child process. ``path`` is the spool of its own children."""

    def __init__(self, spool: str) -> None:
        self.path = os.path.join(spool, f"{os.getpid()}-{os.urandom(4).hex()}")

    def mark_compiling(self, now: bool, name: str = "") -> None:
        """Note that a compilation began in the process of that name, or that none is under way."""
        marker = os.path.join(self.path, _COMPILING)
        if now:
            _make(self.path)
            with open(marker, "w", encoding="utf-8", errors="replace") as stream:
                stream.write(name)
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(marker)

    def write(self, record: Record, name: str, *, final: bool, device: bool) -> None:
        """Replace the report. Raises ``OSError``."""
        _make(self.path)
        data = _Report(name, final=final, device=device, record=record).to_dict()
        put(Path(self.path, _RECORD), dumps(data).encode())

    def open_run_counts(self) -> RunCounts:
        """Return where runs are counted from now on. Raises ``OSError``."""
        _make(self.path)
        return RunCounts(self.path)


def _make(path: str) -> None:
    """Make a directory and those above it, for the user only."""
    if not os.path.isdir(path):
        above = os.path.dirname(path)
        if not os.path.isdir(above):
            _make(above)
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)


def _process(node: str) -> int:
    """Return the id of the process that a directory belongs to."""
    return int(os.path.basename(node).partition("-")[0])


def _nodes(spool: str) -> list[str]:
    """Return the directories of the processes that one process started; none if it has no spool."""
    with contextlib.suppress(OSError):
        return sorted(entry.path for entry in os.scandir(spool) if _NODE.match(entry.name))
    return []


def read(spool: str) -> list[ProcessRecord]:
    """Return what all processes below have reported so far; empty if there is no spool."""
    records: list[ProcessRecord] = []
    for path in _nodes(spool):
        records += read(path)
        node = Path(path)
        compiling = (node / _COMPILING).exists()
        unseen = _text(node / _UNSEEN)
        report = _report(node / _RECORD)
        if not (compiling or unseen or report):
            continue
        report = report or _Report()
        records.append(
            ProcessRecord(
                node=path,
                name=_text(node / _COMPILING) or report.name or "child",
                record=report.record if report.final else with_runs(report.record, path),
                compiling=compiling,
                alive=is_alive(_process(path)),
                is_incomplete=report.device and not report.final,
                unseen=unseen,
            )
        )
    return records


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""


def _report(file: Path) -> _Report | None:
    """Return what a process wrote; None if nothing can be read."""
    try:
        return _Report.from_dict(loads(_text(file)))
    except ValueError:
        return None


def is_alive(pid: int) -> bool:
    """Return whether a process runs; one that ended and was not waited for does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    state = _text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return not state or state[0] not in ("Z", "X")


def sweep(spool: str) -> None:
    """Remove the directories of processes that are gone, and the spool itself if it is empty."""
    for node in _nodes(spool):
        if not _lives(node):
            shutil.rmtree(node, ignore_errors=True)
    with contextlib.suppress(OSError):
        os.rmdir(spool)


def _lives(node: str) -> bool:
    """Return whether the process of a node, or one below it, still runs."""
    return is_alive(_process(node)) or any(map(_lives, _nodes(node)))


def remove(spool: str) -> None:
    """Remove the spool with all that is in it."""
    shutil.rmtree(spool, ignore_errors=True)


# Runs of compiled graphs, told as they happen.

MOST: Final = 8192
"""The most lines and threads of a process whose runs are counted; with more all are unknown."""


class RunCounts:
    """The runs of this process, in a file that the test reads.

    ``add`` returns the index of a line in ``counts``; each run of the line adds one there. Where
    there are too many lines, the index is 0, and a count there makes all runs unknown.
    """

    def __init__(self, folder: str) -> None:
        """Make the files. Raises ``OSError``."""
        self._lines = os.path.join(folder, _LINES)
        file = os.open(os.path.join(folder, _RUNS), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.ftruncate(file, MOST * 8)
            self.counts = memoryview(mmap.mmap(file, MOST * 8)).cast("Q")
        finally:
            os.close(file)
        self._next = itertools.count(1)

    def add(self, line: LineRuns) -> int:
        """Return the index of a new count, of runs of ``line``; 0 if there are too many lines.

        Raises ``OSError``.
        """
        number = next(self._next)
        if number >= MOST:
            return 0
        text = dumps(_CountedLine(number, line).to_dict())
        file = os.open(self._lines, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(file, f"{text}\n".encode())
        finally:
            os.close(file)
        return number


def with_runs(record: Record, folder: str) -> Record:
    """Return the record of a process that may still run, with its runs up to now.

    Only the runs in ``folder`` (``RunCounts``) are up to now. Those of other layers, and all reads,
    were known when the record was written: they become None, which is not known. If the counts
    cannot be read, all runs do.
    """
    unknown = dict.fromkeys(record.executions)
    silent = replace(record, executions=unknown, reads=dict.fromkeys(record.reads))
    try:
        runs = tuple(_runs(folder))
    except (OSError, ValueError, LookupError):
        return silent
    # Dynamo's runs are all in the file; other layers have counters of their own, in that process.
    told = dict.fromkeys(("dynamo", *(run.layer for run in runs)), 0)
    for run in runs:
        told[run.layer] += run.count
    others = (run for run in record.execution_list if run.layer not in told)
    executions = {**unknown, **told} if record.executions or runs else {}
    return merge([replace(silent, executions=executions, execution_list=(*runs, *others))])


def _runs(folder: str) -> Iterator[LineRuns]:
    """Yield what ran. Raises ``OSError``, ``ValueError`` or ``LookupError`` if it is not known."""
    counts = array("Q")
    with open(os.path.join(folder, _RUNS), "rb") as stream:
        counts.frombytes(stream.read(MOST * 8))
    if counts[0]:
        raise ValueError("more lines than are told")
    try:
        with open(os.path.join(folder, _LINES), encoding="utf-8") as stream:
            texts = stream.readlines()
    except FileNotFoundError:
        return
    for text in texts:
        line = _CountedLine.from_dict(loads(text))
        if count := counts[line.position]:
            yield replace(line.run, count=line.run.count * count)
