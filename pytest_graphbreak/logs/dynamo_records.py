"""Puts the lines of torch's log records together: ``TORCH_LOGS`` on standard error.

Every line of a record carries the same prefix, so a record is found again when other processes
print between its lines. Its time has milliseconds only: two records of one moment are separated by
their first words.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from msgspec import Struct

from pytest_graphbreak.layers.dynamo.events import Attempt
from pytest_graphbreak.layers.dynamo.messages import attempt_name
from pytest_graphbreak.model.places import is_resume
from pytest_graphbreak.model.stacks import Line, function
from pytest_graphbreak.text import prefixes

# The frames that Dynamo compiled in one process, and the one that each came from.
#
# Compile ids (``0/0``: frame 0, compiled the first time) begin again when Dynamo is reset; from
# then on names carry the number of the round, ``0/0#2``, as those of the live observer do.

_EVAL_FRAME: Final = "torch/_dynamo/eval_frame.py"


class LoggedAttempt(Attempt, eq=False):
    """An attempt in a log. ``id`` has the number of the round too, ``0/0#2``.

    ``traced``: that its tracing began was logged; ``buckets``: in how many parts
    its next graph goes to the backend, since DDP cuts it; ``in_eager``: it was left to eager.
    """

    traced: bool = False
    buckets: int = 1
    in_eager: bool = False

    @classmethod
    def at_code(cls, id: str, code: Line, above: tuple[Line, ...] = ()) -> LoggedAttempt:
        return cls(id, code, code, above=above)


class Guards(NamedTuple):
    """The guards that failed before a frame was compiled again, and which record named them."""

    texts: tuple[str, ...]
    artifact: str = ""


Function = tuple[str, str]
"""A file and the name of a function in it; the rest of a function counts as that function."""


class Process(Struct):
    """The state of one process since compile ids last began again.

    ``full_stacks`` says that its stacks have their last frame (see ``torch_calls``), ``broken`` is
    the last attempt that ended in a graph break. Attempts are also kept by the function that stacks
    name, the latest for each first line.
    """

    label: str
    full_stacks: bool = False
    attempts: dict[str, LoggedAttempt] = {}
    guards: dict[str, Guards] = {}
    broken: LoggedAttempt | None = None
    rounds: int = 1
    _functions: dict[Function, dict[int, LoggedAttempt]] = {}

    def begin(self) -> None:
        """Begin a new round of ids, since Dynamo was reset."""
        self.attempts.clear()
        self.guards.clear()
        self._functions.clear()
        self.broken = None
        self.rounds += 1

    def forget(self) -> None:
        """Drop the older half: a log has no end, and attempts mostly refer to late ones."""
        younger = list(self.attempts.items())[len(self.attempts) // 2 :]
        self.attempts.clear()
        self._functions.clear()
        for id, attempt in younger:
            attempt.parent = None  # or it would keep the whole past alive
            self.add(id, attempt)

    def name(self, id: str) -> str:
        return attempt_name(id, self.rounds)

    def add(self, id: str, attempt: LoggedAttempt) -> None:
        """Add an attempt."""
        self.attempts[id] = attempt
        lines = self._functions.setdefault(function(attempt.code), {})
        lines.pop(attempt.code.line, None)
        lines[attempt.code.line] = attempt

    def latest(self, line: Line) -> LoggedAttempt | None:
        """Return the latest attempt at the function of a frame."""
        return next(reversed(self._functions.get(function(line), {}).values()), None)

    def at_code(self, code: Line) -> LoggedAttempt | None:
        """Return the latest attempt at a function with this first line."""
        return self._functions.get(function(code), {}).get(code.line)

    def nearest_before(self, code: Line) -> LoggedAttempt | None:
        """Return the attempt at a function or a rest of it that begins nearest before a line."""
        lines = self._functions.get(function(code), {})
        return lines.get(max((line for line in lines if line <= code.line), default=-1))


def is_recompile(id: str) -> bool:
    """Return whether a compile id belongs to a frame that was compiled before: ``0/1``."""
    return id.rpartition("/")[2] not in ("", "0")


def parent(process: Process, code: Line, above: tuple[Line, ...]) -> LoggedAttempt | None:
    """Return the attempt whose rest this one is, or that called this one after a break."""
    if is_resume(code.name):
        return process.nearest_before(code)
    for frame in reversed(above):
        if frame.file.endswith(_EVAL_FRAME):
            break
        if caller := process.latest(frame):
            return caller
    if process.full_stacks or not torch_calls(above):
        return None
    return process.broken


def torch_calls(above: tuple[Line, ...]) -> bool:
    """Return whether the last frame shown calls the compiled function or its module.

    Torch leaves its own frames out of the stack, and one too many: the caller's. If a frame of
    torch is still the last one then, it called the caller, so the caller is a compiled function
    itself. The first frame of all has no such caller; it shows whether a version of torch logs
    whole stacks.
    """
    if not above:
        return False
    last = above[-1]
    return last.file.endswith(_EVAL_FRAME) or (
        last.file.endswith("torch/nn/modules/module.py") and last.name == "_call_impl"
    )


_PREFIX: Final = re.compile(
    r"[VDIWEC]\d{4} \d\d:\d\d:\d\d\.\d{1,9} (?P<pid>\d+) "
    r"(?P<file>[^\s:\]]+):\d+\]"
    r"(?P<tags>(?: \[[^\]\s]*\])*)",
    re.A,
)
_ARTIFACT: Final = re.compile(r"\[__(\w+)\]", re.A)
_ID: Final = re.compile(r"\[(!?\d{1,9}(?:/\d{1,9}){1,9}(?:_\d{1,9})?)\]", re.A)

HINT: Final = ".py:"
"""What all prefixes have in common, for one search in a line."""

_TAG: Final = "] [__"
_ARTIFACTS: Final = ("graph_breaks]", "recompiles")
"""The artifacts that are read: the other ones (bytecode, guards) are most of many logs."""

_MARKS: Final = (
    "_dynamo/convert_frame.py:",
    "torchdynamo start tracing",
    "Step 2: done compiler function",
    "DDPOptimizer used bucket cap",
    "] create_env",
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


class Torch(NamedTuple):
    """One record. ``id`` is the compile id (``0/0``), ``attempt`` the restart in it.

    ``where`` is the file of torch that printed it (``torch/_dynamo/guards.py``),
    ``artifact`` the name that ``TORCH_LOGS`` knows it by, empty for plain records.
    """

    rank: str
    pid: str
    where: str
    id: str
    attempt: int
    artifact: str
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
            return len(self.lines) > 1
        return not self.lines[0].endswith(":") or not self.lines[-1]

    def record(self) -> Torch:
        tags = self.prefix["tags"]
        number = _ID.search(tags)
        id, _, attempt = number[1].partition("_") if number else ("", "", "")
        artifact = _ARTIFACT.search(tags)
        return Torch(
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

    A record of an artifact ends with the next record of its process. Others end with the first line
    of anyone else, since device graphs that follow are linked to them; ``is_waiting`` says that
    there is one.
    """

    def __init__(self, take: Callable[[Torch], None]) -> None:
        self.is_waiting = False
        self._take = take
        self._open: dict[tuple[str, str], _Open] = {}

    def line(self, line: str) -> None:
        """Take the next line that has ``HINT`` in it, or any next one while ``is_waiting``."""
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
        if tag >= 0:
            self._find(line, tag if _is_read(line, tag) else -1)
        else:
            self._find(line, next((at for mark in _MARKS if (at := line.find(mark)) >= 0), -1))

    def finish(self) -> None:
        """End the log: nothing more will be added to the open records."""
        for process in list(self._open):
            self._close(process)

    def _find(self, line: str, at: int) -> None:
        """Begin the record that has a mark ``at`` a place in its first line."""
        begin = max(0, at - prefixes.REACH)
        prefix = _PREFIX.search(line, begin, at + 64) if at >= 0 else None
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
