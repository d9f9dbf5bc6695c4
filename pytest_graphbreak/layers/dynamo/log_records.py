"""Puts the lines of torch's log records together: ``TORCH_LOGS`` on standard error.

Every line of a record carries the same prefix, so a record is found again when other processes
print between its lines. Its time has milliseconds only: two records of one moment are separated by
their first words.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from pytest_graphbreak.layers.dynamo.events import Attempt
from pytest_graphbreak.layers.dynamo.messages import attempt_name
from pytest_graphbreak.model.places import is_resume
from pytest_graphbreak.model.stacks import Line, function
from pytest_graphbreak.text import scan
from pytest_graphbreak.text.blocks import Block
from pytest_graphbreak.text.scan import Group, Needle

# The frames that Dynamo compiled in one process, and the one that each came from.
#
# Compile ids (``0/0``: frame 0, compiled the first time) begin again when Dynamo is reset; from
# then on names carry the number of the round, ``0/0#2``, as those of the live observer do.

_EVAL_FRAME: Final = "torch/_dynamo/eval_frame.py"


@dataclass(eq=False, slots=True)
class LoggedAttempt(Attempt):
    """An attempt in a log. ``id`` has the number of the round too, ``0/0#2``.

    ``traced``: that its tracing began was logged; ``buckets``: in how many parts
    its next graph goes to the backend, since DDP cuts it; ``left``: it was left to eager;
    ``broke_at`` is the place of the break that ended it, ``start`` when it began.
    """

    traced: bool = False
    buckets: int = 1
    left: bool = False
    broke_at: tuple[str, ...] = ()
    start: float | None = None

    @classmethod
    def at(cls, id: str, code: Line, above: tuple[Line, ...] = ()) -> LoggedAttempt:
        return cls(id, code, code, above=above)


class Guards(NamedTuple):
    """The guards that failed before a frame was compiled again, and which record named them."""

    texts: tuple[str, ...]
    artifact: str = ""


Function = tuple[str, str]
"""A file and the name of a function in it; the rest of a function counts as that function."""


@dataclass(slots=True)
class Process:
    """The state of one process since compile ids last began again.

    ``whole`` says that its stacks have their last frame (see ``torch_calls``), ``broken`` is the
    last attempt that ended in a graph break. Attempts are also kept by the function that stacks
    name, the latest for each first line.
    """

    label: str
    whole: bool = False
    attempts: dict[str, LoggedAttempt] = field(default_factory=dict)
    guards: dict[str, Guards] = field(default_factory=dict)
    broken: LoggedAttempt | None = None
    rounds: int = 1
    _functions: dict[Function, dict[int, LoggedAttempt]] = field(default_factory=dict)

    def begin(self) -> None:
        """Begin a new round of ids, since Dynamo was reset."""
        self.attempts.clear()
        self.guards.clear()
        self._functions.clear()
        self.broken = None
        self.rounds += 1

    def forget(self) -> None:
        """Drop the older half: a log has no end, and attempts mostly refer to late ones."""
        kept = list(self.attempts.items())[len(self.attempts) // 2 :]
        self.attempts.clear()
        self._functions.clear()
        for id, attempt in kept:
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

    def at(self, code: Line) -> LoggedAttempt | None:
        """Return the latest attempt at a function with this first line."""
        return self._functions.get(function(code), {}).get(code.line)

    def begun(self, code: Line) -> LoggedAttempt | None:
        """Return the attempt at a function or a rest of it that begins nearest before a line."""
        lines = self._functions.get(function(code), {})
        return lines.get(max((line for line in lines if line <= code.line), default=-1))


def is_recompile(id: str) -> bool:
    """Return whether a compile id belongs to a frame that was compiled before: ``0/1``."""
    return id.rpartition("/")[2] not in ("", "0")


def parent(process: Process, code: Line, above: tuple[Line, ...]) -> LoggedAttempt | None:
    """Return the attempt whose rest this one is, or that called this one after a break."""
    if is_resume(code.name):
        return process.begun(code)
    for frame in reversed(above):
        if frame.file.endswith(_EVAL_FRAME):
            break
        if known := process.latest(frame):
            return known
    if process.whole or not torch_calls(above):
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
    rb"[VDIWEC](?P<time>\d{4} \d\d:\d\d:\d\d\.\d{1,6})\d* (?P<pid>\d+) "
    rb"(?P<file>[^\s:\]]+):\d+\]"
    rb"(?P<tags>(?: \[[^\]\s]*\])*)"
)
_ARTIFACT: Final = re.compile(rb"\[__(\w+)\]")
_ID: Final = re.compile(rb"\[(!?\d{1,9}(?:/\d{1,9}){1,9}(?:_\d{1,9})?)\]")

GATE: Final = b"torch/_dynamo/"
"""A part of nearly every prefix; torch is named from the first entry of ``sys.path``."""

MARKS: Final = (
    b"[__graph_breaks]",
    b"[__recompiles",
    b"_dynamo/convert_frame.py:",
    b"torchdynamo start tracing",
    b"Step 2: done compiler function",
    b"DDPOptimizer used bucket cap",
    b"] create_env",
)
"""The marks in the first lines of the records that are read; all others are passed over.

Frames that begin, recompile limits and suppressed errors are all printed by
``convert_frame.py``, which prints little else.
"""

_SKIPPING: Final = b" skipping: "
"""The mark of frames that Dynamo does not look at: half of some logs, and nothing follows them."""

_BEGIN: Final = re.compile(rb"^(?:Graph break(?=:| \(| in user code)|Recompiling function)", re.M)
"""The beginning of a record. Names of breaks begin alike: "Graph break under ..." (torch 2.15)."""
_USUAL: Final = 8 * 1024
_LONGEST: Final = 512 * 1024
_FAR: Final = 64 * 1024
"""How far on to look for the lines of a record where other processes print between them."""

Key = tuple[bytes, bytes]
"""The text before a prefix (a rank, a colour) and the prefix, which all lines share."""


class Torch(NamedTuple):
    """One record. ``id`` is the compile id (``0/0``), ``attempt`` the restart in it.

    ``where`` is the file of torch that printed it (``torch/_dynamo/guards.py``),
    ``artifact`` the name that ``TORCH_LOGS`` knows it by, empty for plain records; ``time`` is in
    seconds, and no year is known.
    """

    rank: str
    pid: str
    where: str
    id: str
    attempt: int
    artifact: str
    text: str
    time: float | None = None


class _Open:
    """A record whose last line may not have been seen yet."""

    __slots__ = ("key", "size", "text")

    def __init__(self, key: Key, text: bytes) -> None:
        self.key = key
        self.text = [text]
        self.size = len(text)

    def add(self, text: bytes) -> None:
        if self.size < _LONGEST:
            self.text.append(text)
            self.size += len(text)


class TorchLines:
    """Finds records and passes each, whole, to ``take``."""

    def __init__(self, take: Callable[[Torch], None]) -> None:
        self._take = take
        self._open: dict[bytes, _Open] = {}
        self._read = 0

    def group(self) -> Group:
        """Return what to search for."""
        return Group([Needle(mark, self._hit) for mark in MARKS], GATE)

    def finish(self) -> None:
        """End the log: nothing more will be added to the open records."""
        for process in list(self._open):
            self._shut(process)

    def _hit(self, block: Block, at: int) -> int:
        """Read the record of a mark up to the first line of another."""
        data = block.data
        if at + block.offset < self._read:
            return self._read - block.offset
        begin = max(scan.begin(data, at), at - scan.REACH)
        found = _PREFIX.search(data, begin, min(block.limit, at + 64))
        if found is None or found.start() > at:
            return at + 1
        ahead = bytes(data[max(begin, found.start() - scan.BEFORE) : found.start()])
        key = (ahead, found[0])
        process = scan.rank_name(ahead).encode() + b" " + found["pid"]
        if data.startswith(_SKIPPING, found.end()):
            self._shut(process)
            return found.end()
        text, end = _together(block, key, found.end())
        self._read = end + block.offset
        for record in _parts(text):
            self._text(process, key, record)
        if not _ARTIFACT.search(found["tags"]):
            if _goes_on(text):
                self._rest(block, key, process, end)
            self._shut(process)  # shut it now, since device graphs that follow are linked to it
        return end

    def _rest(self, block: Block, key: Key, process: bytes, end: int) -> None:
        """Read later lines of the record: only its first line has a mark."""
        ahead, prefix = key
        data, far = block.data, min(block.end, end + _FAR)
        while (at := data.find(prefix, end, far)) >= 0:
            end = at + len(prefix)
            if scan.rank(data, scan.begin(data, at), at) == scan.rank_name(ahead):
                text, end = _together(block, key, end)
                self._text(process, key, text)

    def _text(self, process: bytes, key: Key, text: bytes) -> None:
        """Add one or more lines with this prefix, given without it."""
        known = self._open.get(process)
        if known is not None and known.key[1] == key[1] and not _BEGIN.match(text):
            known.add(text)
        else:
            self._shut(process)
            self._open[process] = _Open(key, text)

    def _shut(self, process: bytes) -> None:
        known = self._open.pop(process, None)
        if known is not None:
            self._take(_record(known))


def _together(block: Block, key: Key, start: int) -> tuple[bytes, int]:
    """Return lines with one prefix that follow each other, without it, and where the last ends.

    ``start`` is where the first prefix ends. Where the same bytes are before
    each prefix the lines are split in bulk, else (time stamps) one by one.
    """
    parts, end = _split(block, key, start)
    ahead, prefix = key
    while (at := scan.following(block.data, end, block.end, prefix)) >= 0:
        if scan.rank(block.data, end + 1, at) != scan.rank_name(ahead):
            break
        stop = scan.finish(block.data, at, block.end)
        parts.append(bytes(block.data[at + len(prefix) : stop]))
        end = stop
    return b"\n".join(part.removeprefix(b" ").rstrip(b"\r") for part in parts), end


def _split(block: Block, key: Key, start: int) -> tuple[list[bytes], int]:
    """Return the lines that begin with the very same bytes."""
    whole = b"\n" + key[0] + key[1]
    size = _USUAL
    while True:
        stop = min(start + size, block.end)
        parts = bytes(block.data[start:stop]).split(whole)
        last = next((index for index, part in enumerate(parts) if b"\n" in part), None)
        if last is not None:
            parts[last:] = [parts[last].partition(b"\n")[0]]
            break
        if stop == block.end or size > _LONGEST:
            break
        size *= 8
    return parts, start + sum(map(len, parts)) + len(whole) * (len(parts) - 1)


def _parts(text: bytes) -> list[bytes]:
    """Return the records of one moment, split where the words of a new one begin."""
    places = [found.start() for found in _BEGIN.finditer(text)][1:]
    return [text[start:end] for start, end in zip([0, *places], [*places, None], strict=True)]


def _goes_on(text: bytes) -> bool:
    """Return whether lines are missing: a colon announces them, and a blank line ends them."""
    first, _, rest = text.partition(b"\n")
    if b" hit config." in first:
        return not rest
    return first.rstrip().endswith(b":") and not rest.endswith(b"\n")


def _record(known: _Open) -> Torch:
    ahead, prefix = known.key
    found = _PREFIX.match(prefix)
    assert found is not None
    tags = found["tags"]
    number = _ID.search(tags)
    id, _, attempt = number[1].decode().partition("_") if number else ("", "", "")
    artifact = _ARTIFACT.search(tags)
    return Torch(
        rank=scan.rank_name(ahead),
        pid=found["pid"].decode(),
        where=found["file"].decode("utf-8", "backslashreplace"),
        id=id,
        attempt=int(attempt or 0),
        artifact=artifact[1].decode() if artifact else "",
        text=scan.text(b"\n".join(known.text)),
        time=_time(found["time"].decode()),
    )


def _time(text: str) -> float | None:
    """Return the seconds of ``1123 02:33:34.657000``: in a leap year, which has each day."""
    try:
        return datetime.strptime(f"2000{text} +0000", "%Y%m%d %H:%M:%S.%f %z").timestamp()
    except ValueError:
        return None
