"""Follows the TT compiler through a log: headers, END markers, errors.

``TTLines`` provides the needles that are searched for and keeps what they say. Counting needs
nothing else, and costs two finds over each block.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Final

from pytest_graphbreak.layers.tt import programs
from pytest_graphbreak.layers.tt.markers import Guess, Markers, module_name
from pytest_graphbreak.layers.tt.programs import Program, Programs
from pytest_graphbreak.text import scan
from pytest_graphbreak.text.blocks import Block, Source
from pytest_graphbreak.text.scan import ANSI, Group, Needle

# Telling a header line that a log has twice from the header of another graph.
#
# If standard error and ``TTXLA_LOGGER_FILE`` go to one file, or were put into one afterwards, each
# header is there twice: one after the other, as loguru writes to both under one lock, or in a
# block, if one file was appended to the other, in either order. Only the lines of standard error
# are followed by the text of a module.

_STAMP: Final = re.compile(rb"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) \(")
REMEMBERED: Final = 200_000
"""The most lines that are remembered, by hash: about 20,000 graphs. Later ones count as new."""


@dataclass(slots=True)
class _HeaderThread:
    """The state of one thread. ``latest`` is the time stamp of its last new line.

    ``copying``: its lines are copies now, ``telling``: with the text that the first ones lack.
    """

    latest: bytes = b""
    copying: bool = False
    telling: bool = False


class Copies:
    """The header lines of one log that are there twice.

    ``count`` were copies, ``adjacent`` of them directly after their line; ``unsure`` may have been.
    Lines of one millisecond may be equal and yet of two graphs, so a line is only taken for a copy
    if it follows itself at once, or if time went back in its thread and a module follows only one
    of the two: none follows a line of ``TTXLA_LOGGER_FILE``. ``announced`` is the graph that the
    line of the last copy has begun, if the text of its module comes only with the copy.
    """

    def __init__(self) -> None:
        self.count = 0
        self.adjacent = 0
        self.unsure = 0
        self.announced: Program | None = None
        self._seen: set[int] = set()
        self._alone: dict[int, Program | None] = {}
        self._threads: dict[tuple[str, str], _HeaderThread] = {}
        self._last = 0

    def between(self) -> None:
        """Note that something else was printed: the next line does not follow the last."""
        self._last = 0

    def is_copy(self, rank: str, thread: str, line: bytes, alone: bool) -> bool:
        """Return whether this header is in the log already; False without a time stamp to compare.

        ``alone``: no text of a module follows it.
        """
        plain = ANSI.sub(b"", line).rstrip()
        found = _STAMP.search(plain)
        if found is None:
            return False
        key = hash((rank, plain[found.start() :]))
        known, follows, self._last = key in self._seen, key == self._last, key
        state = self._threads.setdefault((rank, thread), _HeaderThread())
        back = state.copying or state.telling or found[0] < state.latest
        again = known and not follows and back
        state.copying = again and alone
        state.telling = again and not alone and key in self._alone
        self.announced = self._alone.pop(key, None) if state.telling else None
        if follows or state.copying or state.telling:
            self.count += 1
            self.adjacent += follows
            return True
        self.unsure += known
        state.latest = max(state.latest, found[0])
        if len(self._seen) < REMEMBERED:
            self._seen.add(key)
            if alone:
                self._alone[key] = None
        return False

    def begins(self, program: Program) -> None:
        """Note that the line that was new begins this graph."""
        if self._last in self._alone:
            self._alone[self._last] = program


_ERRORS: Final = ("ERR", "FATL")
_LOAD: Final = b"Codegen load:"
_DEBUG_BUILD: Final = b"ModuleBuilder::buildModule"
"""A line printed by DLOG_F: a Release build of tt-xla has no such line."""
_DIAGNOSTIC: Final = b": error: "


class Watcher:
    """A receiver of what is found, if more than counts is needed. The base does nothing."""

    def begun(self, program: Program) -> None:
        """Handle the beginning of a graph."""

    def again(self, program: Program) -> None:
        """Handle the header of a graph that ended without a text, again: now the text comes."""

    def text(self, program: Program, data: bytearray, start: int, end: int) -> None:
        """Handle a part of the text of a graph's first module."""

    def closed(self, program: Program) -> None:
        """Handle the end of the first module of a graph."""


class TTLines:
    """The lines that the TT compiler printed, rank by rank and thread by thread.

    Without a ``watcher`` it only counts: then END markers are passed over as soon as there was a
    header, since headers say more.
    """

    def __init__(self, watcher: Watcher | None = None) -> None:
        self.programs = Programs()
        self.markers: dict[str, Markers] = {}
        self.headers = 0
        self.bare = 0
        self.ends = 0
        self.torn = 0
        self.orphans = 0
        self.copies = Copies()
        self.debug = False
        self.levels: Counter[str] = Counter()
        self._counts_only = watcher is None
        self._watcher = watcher or Watcher()
        self._open: Program | None = None
        self._unclosed: Counter[str] = Counter()
        self._rank = ""
        self._mark = 0
        self._said = ""

    def group(self, block: Block) -> Group:
        """Return what to search for in this block."""
        preamble = Needle(programs.FILE, self._preamble)
        if self._counts_only and self.headers and not self.bare:
            return Group([preamble])
        end = Needle(programs.END, self._end)
        if block.data.find(programs.FILE, block.start, block.limit) >= 0:
            return Group([preamble, end])
        # No preamble here: someone may have cut it off the headers.
        return Group([Needle(programs.BARE, self._bare), end])

    def begin(self, block: Block) -> None:
        """Begin a block, before it is scanned."""
        self._mark = block.start

    def end(self, block: Block) -> None:
        """End a block after it was scanned: text at its end belongs to what is open."""
        self._said = self._diagnostic(block, block.end)
        if self._open is not None:
            self._text(block, block.end)
        elif self.ends and not self.headers:
            self._headless(self._rank).feed(block.data, self._mark, block.end)

    def finish(self) -> None:
        """End the log."""
        self._close()
        self.programs.finish()

    @property
    def damaged(self) -> int:
        """The number of headers that another writer cut in two, as far as it shows."""
        return max(self.torn, self.orphans, self.programs.lost)

    @property
    def unsure_copies(self) -> int:
        """The number of header lines that the log has twice: copies, or other graphs.

        Only standard error has END markers: if each header has one, no other line is a copy.
        """
        copies = self.copies
        if self.ends < self.headers:
            return copies.unsure
        appended = copies.count - copies.adjacent
        return copies.adjacent if self.ends > self.headers + appended else 0

    def guesses(self) -> dict[str, Guess]:
        """Return what markers mean, by rank, if there was no header; empty if there was one."""
        if self.headers:
            return {}
        return {rank: markers.guess() for rank, markers in self.markers.items() if len(markers)}

    def _preamble(self, block: Block, at: int) -> int:
        found = programs.read_header(block.data, at, block.limit)
        if found is None:
            return at + len(programs.FILE)
        level, stage, message = found
        self.levels[level] += 1
        if stage and not scan.thread(block.data, at):
            self.torn += 1
        elif stage:
            self._header(block, at, stage)
        elif programs.is_torn(block.data, message, block.limit):
            self.torn += 1
        elif level in _ERRORS:
            self._error(block, at, message)
        elif block.data.startswith(_LOAD, message):
            self.programs.load(*self._who(block, at))
        elif block.data.startswith(_DEBUG_BUILD, message):
            self.debug = True
        return scan.finish(block.data, at, block.limit)

    def _bare(self, block: Block, at: int) -> int:
        if stage := programs.bare_header(block.data, at, block.limit):
            self.bare += 1
            self._header(block, at, stage)
        return at + len(programs.BARE)

    def _header(self, block: Block, at: int, stage: str) -> None:
        data = block.data
        line = scan.begin(data, at)
        end = scan.finish(data, at, block.limit)
        self._text(block, line)
        self._mark = end
        rank = scan.rank(data, line, at)
        thread = scan.thread(data, at)
        last = end + len(b"\r\n") >= block.limit
        alone = last or scan.following(data, end, block.limit, programs.FILE) >= 0
        is_copy = self.copies.is_copy(rank, thread, bytes(data[line:end]), alone)
        announced = self.copies.announced
        if is_copy and announced is None:
            return
        self._close()
        self._said = ""
        if announced is not None:
            self._open = announced
            self._watcher.again(announced)
            return
        time = _time(bytes(data[line:at]))
        program = self.programs.stage(rank, thread, stage, block.offset + line, time)
        if program is not None and len(program.stages) == 1:
            self._open = program
            self.copies.begins(program)
            self._watcher.begun(program)
        self.headers += 1
        self._unclosed[rank] += 1

    def _end(self, block: Block, at: int) -> int:
        data = block.data
        rank = scan.rank(data, scan.begin(data, at), at)
        self.ends += 1
        self.copies.between()
        self._rank = rank
        if self._unclosed[rank]:
            self._unclosed[rank] -= 1
            self._text(block, at)
        elif not self.headers:
            markers = self._headless(rank)
            markers.feed(data, self._mark, at)
            markers.mark()
        elif self.ends > self.headers + self.copies.count:
            self.orphans += 1
        self._close()
        self._mark = at + len(programs.END)
        self._said = ""
        return self._mark

    def _error(self, block: Block, at: int, message: int) -> None:
        data = block.data
        rank, thread = self._who(block, at)
        words = scan.text(bytes(data[message : scan.finish(data, message, block.limit)]))
        if said := self._diagnostic(block, scan.begin(data, at)):
            words = f"{words}: {said}"
        self.copies.between()
        self.programs.error(rank, thread, words)
        if not self.headers:
            self._headless(rank).error()

    def _diagnostic(self, block: Block, upto: int) -> str:
        """Return what MLIR printed since the last module: a raw text above the compiler's line."""
        low = max(self._mark, upto - scan.REACH)
        at = block.data.rfind(_DIAGNOSTIC, low, upto)
        if at < 0:
            return self._said
        at += len(_DIAGNOSTIC)
        return scan.text(bytes(block.data[at : scan.finish(block.data, at, upto)]))

    def _text(self, block: Block, upto: int) -> None:
        """Pass the text since the last mark to the program whose module is open."""
        program = self._open
        if program is None or upto <= self._mark:
            return
        if not program.name:
            program.name = module_name(block.data, self._mark, upto)
        self._watcher.text(program, block.data, self._mark, upto)

    def _close(self) -> None:
        """End the module that is open."""
        if self._open is not None:
            self._watcher.closed(self._open)
        self._open = None

    def _headless(self, rank: str) -> Markers:
        known = self.markers.get(rank)
        if known is None:
            known = self.markers[rank] = Markers()
        return known

    def _who(self, block: Block, at: int) -> tuple[str, str]:
        data = block.data
        return scan.rank(data, scan.begin(data, at), at), scan.thread(data, at)


def _time(preamble: bytes) -> float | None:
    """Return the time of a header in seconds of no time zone, or None."""
    found = _STAMP.search(ANSI.sub(b"", preamble))
    try:
        stamp = datetime.fromisoformat(found[1].decode()) if found else None
    except ValueError:
        return None
    return stamp.replace(tzinfo=timezone.utc).timestamp() if stamp else None


def count(path: str) -> TTLines:
    """Count the graphs of one log and read nothing else of it. Raises what ``Source`` raises."""
    seen = TTLines()
    with Source(path) as source:
        for block in source.blocks():
            seen.begin(block)
            scan.scan(block, [seen.group(block)])
            seen.end(block)
    seen.finish()
    return seen
