"""Follows the TT compiler through a log, line by line: headers, END markers, errors.

Only graphs with headers are counted here. What markers without headers mean is worked out in
``logs.tt``, for the logs of old builds: the plugin's own file has headers.
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime, timezone
from typing import Final, NamedTuple

from pytest_graphbreak.layers.tt import programs
from pytest_graphbreak.layers.tt.programs import Program, Programs, module_name
from pytest_graphbreak.text import prefixes
from pytest_graphbreak.text.prefixes import ANSI

# Telling a header line that a log has twice from the header of another graph.
#
# If standard error and ``TTXLA_LOGGER_FILE`` go to one file, or were put into one afterwards, each
# header is there twice: one after the other, as loguru writes to both under one lock, or in a
# block, if one file was appended to the other, in either order. Only the lines of standard error
# are followed by the text of a module.

_STAMP: Final = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) \(", re.A)
REMEMBERED: Final = 200_000
"""The most lines that are remembered, by hash: about 20,000 graphs. Later ones count as new."""


class Copies:
    """The header lines of one log that are there twice.

    ``count`` were copies, ``adjacent`` of them directly after their line; ``unsure`` may have been.
    Lines of one millisecond may be equal and yet of two graphs, so a line is only taken for a copy
    if it follows itself at once, or if time went back in its thread and a module follows only one
    of the two: none follows a line of ``TTXLA_LOGGER_FILE``.
    """

    def __init__(self) -> None:
        self.count = 0
        self.adjacent = 0
        self.unsure = 0
        self._seen: dict[int, bool] = {}
        """Whether no module followed each line, by its hash."""
        self._latest: dict[tuple[str, str], str] = {}
        """The time stamp of the last new line of each thread."""
        self._copying: set[tuple[str, str]] = set()
        """Threads whose lines are copies now."""
        self._last = 0

    def break_sequence(self) -> None:
        """Note that something else was printed: the next line does not follow the last."""
        self._last = 0

    def is_copy(self, rank: str, thread: str, line: str, alone: bool) -> bool:
        """Return whether this header is in the log already; False without a time stamp to compare.

        ``alone``: no text of a module follows it.
        """
        words = ANSI.sub("", line).rstrip()
        stamp = _STAMP.search(words)
        if stamp is None:
            return False
        process, key = (rank, thread), hash((rank, words[stamp.start() :]))
        earlier, follows, self._last = self._seen.get(key), key == self._last, key
        latest = self._latest.get(process, "")
        is_back = process in self._copying or stamp[0] < latest
        self._copying.discard(process)
        if earlier is not None and not follows and is_back and (alone or earlier):
            self._copying.add(process)
            self._seen[key] = alone
        if follows or process in self._copying:
            self.count += 1
            self.adjacent += follows
            return True
        self.unsure += earlier is not None
        self._latest[process] = max(latest, stamp[0])
        if len(self._seen) < REMEMBERED:
            self._seen[key] = alone
        return False


_ERRORS: Final = ("ERR", "FATL")
_LOAD: Final = "Codegen load:"
_DIAGNOSTIC: Final = ": error: "
_NEAR: Final = prefixes.BEFORE + len(programs.FILE)

_HINT: Final = "MLIR M"
"""What END markers and headers without a preamble have in common, for one search in a line."""
_MARK: Final = re.compile(r"module_builder\.cc:|-{18} END OF MLIR MODULE -{18}|MLIR Module ")


class Watcher:
    """A receiver of what is found, if more than counts is needed. The base does nothing."""

    def on_begin(self, program: Program) -> None:
        """Handle the beginning of a graph."""

    def on_text(self, program: Program, text: str) -> None:
        """Handle a line, or a part of one, of a graph's first module."""

    def on_close(self, program: Program) -> None:
        """Handle the end of the first module of a graph."""


class _Header(NamedTuple):
    """The header of a module. ``line`` runs from its preamble to its end, at ``offset`` bytes."""

    rank: str
    thread: str
    stage: str
    line: str
    offset: int


class TTLines:
    """The lines that the TT compiler printed, rank by rank and thread by thread."""

    def __init__(self, watcher: Watcher | None = None) -> None:
        self.programs = Programs()
        self.headers = 0
        self.bare = 0
        self.ends = 0
        self.torn = 0
        self.orphans = 0
        self.copies = Copies()
        self.levels: Counter[str] = Counter()
        self._watcher = watcher or Watcher()
        self.size = 0
        self._header: _Header | None = None
        self._open: Program | None = None
        self._has_preambles = False
        self._unclosed: Counter[str] = Counter()
        self._diagnostic = ""

    def line(self, line: str) -> None:
        """Take the next line of the log."""
        if self._header is not None:
            # No text of a module follows it if the next line is of the plugin's logger, too.
            self._begin(self._header, alone=line.find(programs.FILE, 0, _NEAR) >= 0)
            self._header = None
        if programs.FILE in line or _HINT in line:
            self._marks(line)
        else:
            if _DIAGNOSTIC in line:
                self._diagnostic = prefixes.text(line.rpartition(_DIAGNOSTIC)[2])
            if self._open is not None or not self.headers:
                self._text(line)
        self.size += len(line)

    def finish(self) -> None:
        """End the log."""
        if self._header is not None:
            self._begin(self._header, alone=True)
            self._header = None
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

    def on_headless_end(self, rank: str) -> None:
        """Handle an END marker, while the log had no header. The base does nothing."""

    def on_headless_error(self, rank: str) -> None:
        """Handle an error of the compiler, while the log had no header. The base does nothing."""

    def on_headless_text(self, text: str) -> None:
        """Handle a line, or a part of one, while the log had no header. The base does nothing."""

    def _marks(self, line: str) -> None:
        """Read a line that has a header or an END marker somewhere in it."""
        at = 0
        for mark in _MARK.finditer(line):
            if mark[0] == programs.END:
                self._text(line[at : mark.start()])
                at = mark.end()
                self._end(prefixes.rank(line[: mark.start()]))
            elif self._read_printed(line, mark.start(), mark[0]):
                return
        self._text(line[at:])

    def _read_printed(self, line: str, at: int, mark: str) -> bool:
        """Read what the plugin printed at ``at``; return whether it fills the line."""
        before = line[max(0, at - prefixes.REACH) : at]
        rank, thread = prefixes.rank(before), prefixes.thread(before)
        if mark == programs.BARE:
            # Where headers have their preamble, this is a word about them.
            stage = "" if self._has_preambles else programs.bare_header(line, at)
            self.bare += bool(stage)
        else:
            self._has_preambles = True
            message = programs.read_message(line, at)
            if message is None:
                return False
            self.levels[message.level] += 1
            if not message.stage or not thread:
                self._message(message, rank, thread)
                return True
            stage = message.stage
        if stage:
            offset = self.size + at - len(before)
            self._header = _Header(rank, thread, stage, before + line[at:], offset)
        return bool(stage)

    def _message(self, message: programs.Message, rank: str, thread: str) -> None:
        """Take a line of the plugin that is no whole header."""
        if message.stage or programs.is_torn(message.text):
            self.torn += 1
        elif message.level in _ERRORS:
            self._error(rank, thread, prefixes.text(message.text))
        elif message.text.startswith(_LOAD):
            self.programs.load(rank, thread)

    def _begin(self, header: _Header, alone: bool) -> None:
        """Begin the module of a header; ``alone``: no text of it follows."""
        if self.copies.is_copy(header.rank, header.thread, header.line, alone):
            return
        self._close()
        self._diagnostic = ""
        time = _time(header.line)
        program = self.programs.stage(header.rank, header.thread, header.stage, header.offset, time)
        if program is not None and len(program.stages) == 1:
            self._open = program
            self._watcher.on_begin(program)
        self.headers += 1
        self._unclosed[header.rank] += 1

    def _end(self, rank: str) -> None:
        """Take an END marker."""
        self.ends += 1
        self.copies.break_sequence()
        if self._unclosed[rank]:
            self._unclosed[rank] -= 1
        elif not self.headers:
            self.on_headless_end(rank)
        elif self.ends > self.headers + self.copies.count:
            self.orphans += 1
        self._close()
        self._diagnostic = ""

    def _error(self, rank: str, thread: str, words: str) -> None:
        """Take an error of the compiler, with what MLIR printed since the last module."""
        if self._diagnostic:
            words = f"{words}: {self._diagnostic}"
        self.copies.break_sequence()
        self.programs.error(rank, thread, words)
        if not self.headers:
            self.on_headless_error(rank)

    def _text(self, text: str) -> None:
        """Pass a text to the program whose module is open."""
        program = self._open
        if program is not None:
            if not program.name:
                program.name = module_name(text)
            self._watcher.on_text(program, text)
        elif not self.headers:
            self.on_headless_text(text)

    def _close(self) -> None:
        """End the module that is open."""
        if self._open is not None:
            self._watcher.on_close(self._open)
        self._open = None


def _time(line: str) -> float | None:
    """Return the time of a header in seconds of no time zone, or None."""
    stamped = _STAMP.search(ANSI.sub("", line))
    try:
        stamp = datetime.fromisoformat(stamped[1]) if stamped else None
    except ValueError:
        return None
    return stamp.replace(tzinfo=timezone.utc).timestamp() if stamp else None
