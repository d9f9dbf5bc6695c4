"""Runs of compiled graphs in a child process, told as they happen.

The record of a child is written when it has compiled something, and a worker that lives on compiles
nothing more. So each run adds one to a number in a file that is mapped into memory: no lock, no
system call, and nothing is lost where the process is killed. Two files of its directory:

``runs``   the numbers, of eight bytes each; the first is not 0 where there were too many lines
``lines``  what each number counts: its position, and a ``LineRuns`` of one run, as lines of JSON
"""

from __future__ import annotations

import itertools
import json
import mmap
import os
from array import array
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from pytest_graphbreak.model.merging import merge
from pytest_graphbreak.model.record import LineRuns, Record

MOST: Final = 8192
"""The number of lines and threads of a process that are told; with more its runs are unknown."""
_RUNS, _LINES = "runs", "lines"


class Told:
    """The numbers of this process. ``counts`` are indexed by what ``add`` returns."""

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
        """Return the index of a new number, which counts runs of ``line``. Raises ``OSError``."""
        number = next(self._next)
        if number >= MOST:
            return 0
        text = json.dumps({"number": number, **line.to_dict()})
        file = os.open(self._lines, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(file, f"{text}\n".encode())
        finally:
            os.close(file)
        return number


def with_runs(record: Record, folder: str) -> Record:
    """Return the record of a process that may still run, with its runs up to now.

    They are None, like values that it reads, on layers that tell of them in the record alone, and
    where it could not tell.
    """
    unknown = {
        "executions": dict.fromkeys(record.executions),
        "reads": dict.fromkeys(record.reads),
    }
    silent = replace(record, **unknown)
    try:
        runs = tuple(_read(folder))
    except (OSError, ValueError, LookupError):
        return silent
    told = dict.fromkeys((DYNAMO, *(run.layer for run in runs)), 0)
    for run in runs:
        told[run.layer] += run.count
    others = (run for run in record.execution_list if run.layer not in told)
    executions = {**unknown["executions"], **told} if record.executions or runs else {}
    return merge([replace(silent, executions=executions, execution_list=(*runs, *others))])


DYNAMO: Final = "dynamo"
"""The layer whose runs are told; others have counters of their own, which nobody can read."""


def _read(folder: str) -> Iterator[LineRuns]:
    """Yield what ran. Raises ``OSError`` or ``ValueError`` if that is not known."""
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
        data = json.loads(text)
        count = counts[data.pop("number")]
        line = LineRuns.from_dict(data)
        if count:
            yield replace(line, count=line.count * count)
