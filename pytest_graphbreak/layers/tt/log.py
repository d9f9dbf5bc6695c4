"""Follows the TT compiler through a log, line by line: headers, END markers, errors (``headers``).

``TTLines`` takes the lines of the plugin's own file (``logfile``), or of any log (``logs.tt``, a
subclass that also reads the text of modules), and puts what they say into ``Programs``, which makes
graphs of stages. In other logs lines of several processes and threads are mixed, and cut in two.

Only graphs with headers are counted here. What markers without headers mean is worked out in
``logs.markers``, for the logs of old builds: the plugin's own file has headers.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from pytest_graphbreak.layers.tt.headers import (
    BARE,
    END,
    FILE,
    Copies,
    Message,
    bare_header,
    is_torn,
    logged_at,
    module_name,
    read_message,
)
from pytest_graphbreak.layers.tt.programs import Program, Programs
from pytest_graphbreak.text import prefixes

_ERRORS: Final = ("ERR", "FATL")
"""The levels of the plugin's errors."""
_LOAD: Final = "Codegen load:"
"""How the plugin's line begins that says that codegen loads a saved graph."""
_DIAGNOSTIC: Final = ": error: "
"""What MLIR prints before the words of an error: ``loc("add.1"): error: failed to legalize``."""

_HINT: Final = "MLIR M"
"""What END markers and headers without a preamble have in common, for one search in a line."""
_MARK: Final = re.compile(r"module_builder\.cc:|-{18} END OF MLIR MODULE -{18}|MLIR Module ")
"""``FILE``, ``END`` or ``BARE``, wherever it is in a line."""


class TTLines:
    """The lines that the TT compiler printed, rank by rank and thread by thread.

    ``add_line`` is called for each line of a log, ``finish`` at its end; then the counts and
    ``programs`` are asked for. A rank is a process as its launcher names it in front of each line,
    empty for a log of one process.
    """

    def __init__(self) -> None:
        self.programs = Programs()
        self.headers = 0
        """Headers of stages, without copies."""
        self.bare = 0
        """The headers that have lost their preamble."""
        self.ends = 0
        """END markers."""
        self.torn = 0
        """Headers that are not whole."""
        self.orphans = 0
        """END markers beyond the headers."""
        self.copies = Copies()
        self.levels: Counter[str] = Counter()
        """The lines of the plugin's logger, by level."""
        self.size = 0
        """The bytes that were read."""
        self._open: Program | None = None
        """The graph whose first module is being printed."""
        self._has_preambles = False
        """Whether any line of the plugin had its preamble: then words without one are no header."""
        self._unclosed: Counter[str] = Counter()
        """Headers without an END marker yet, by rank."""
        self._diagnostic = ""
        """The error that MLIR printed last, before the plugin's own."""

    def add_line(self, line: str) -> None:
        """Take the next line of the log."""
        if FILE in line or _HINT in line:
            self._marks(line)
        else:
            if _DIAGNOSTIC in line:
                self._diagnostic = prefixes.text(line.rpartition(_DIAGNOSTIC)[2])
            if self._open is not None or not self.headers:  # the text of later modules is not read
                self._text(line)
        self.size += len(line)

    def finish(self) -> None:
        """End the log."""
        self._close()
        self.programs.finish()

    @property
    def is_there(self) -> bool:
        """Whether the log has anything of the TT plugin."""
        return bool(self.headers or self.ends or self.levels)

    @property
    def damaged(self) -> int:
        """The number of headers that another writer cut in two, as far as it shows.

        One may show in each of these numbers, so they are not added.
        """
        return max(self.torn, self.orphans, self.programs.lost)

    @property
    def unsure_copies(self) -> int:
        """The number of header lines that the log has twice: copies, or other graphs.

        Only standard error has END markers: if each header has one, it was printed there, and none
        is a copy of the logger's file.
        """
        if self.ends < self.headers:
            return self.copies.unsure
        # More markers than headers: what was taken for copies at once may have been graphs.
        return self.copies.count if self.ends > self.headers else 0

    # What subclasses are told of; nothing is done here.

    def on_begin(self, program: Program) -> None:
        """Handle the beginning of a graph."""

    def on_text(self, program: Program, text: str) -> None:
        """Handle a line, or a part of one, of a graph's first module."""

    def on_close(self, program: Program) -> None:
        """Handle the end of the first module of a graph."""

    def on_headless_end(self, rank: str) -> None:
        """Handle an END marker, while the log had no header."""

    def on_headless_error(self, rank: str) -> None:
        """Handle an error of the compiler, while the log had no header."""

    def on_headless_text(self, text: str) -> None:
        """Handle a line, or a part of one, while the log had no header."""

    def _marks(self, line: str) -> None:
        """Read a line that has a header or an END marker somewhere in it."""
        at = 0
        for mark in _MARK.finditer(line):
            if mark[0] == END:
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
        if mark == BARE:
            stage = "" if self._has_preambles else bare_header(line, at)
            self.bare += bool(stage)
        else:
            self._has_preambles = True
            message = read_message(line, at)
            if message is None:
                return False
            self.levels[message.level] += 1
            # The preamble of a whole header names the thread.
            if not message.stage or not thread:
                self._message(message, rank, thread)
                return True
            stage = message.stage
        if stage:
            offset = self.size + at - len(before)
            self._begin(rank, thread, stage, before + line[at:], offset)
        return bool(stage)

    def _message(self, message: Message, rank: str, thread: str) -> None:
        """Take a line of the plugin that is no whole header."""
        if message.stage or is_torn(message.text):
            self.torn += 1
        elif message.level in _ERRORS:
            self._error(rank, thread, prefixes.text(message.text))
        elif message.text.startswith(_LOAD):
            self.programs.add_load(rank, thread)

    def _begin(self, rank: str, thread: str, stage: str, header: str, offset: int) -> None:
        """Begin the module of a header, the text from its preamble to its end."""
        if self.copies.is_copy(rank, header):
            return
        self._close()
        self._diagnostic = ""
        program = self.programs.add_stage(rank, thread, stage, offset, logged_at(header))
        if program is not None and len(program.stages) == 1:
            self._open = program
            self.on_begin(program)
        self.headers += 1
        self._unclosed[rank] += 1

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
        self.programs.add_error(rank, thread, words)
        if not self.headers:
            self.on_headless_error(rank)

    def _text(self, text: str) -> None:
        """Pass a text to the program whose module is open."""
        program = self._open
        if program is not None:
            if not program.name:
                program.name = module_name(text)
            self.on_text(program, text)
        elif not self.headers:
            self.on_headless_text(text)

    def _close(self) -> None:
        """End the module that is open."""
        if self._open is not None:
            self.on_close(self._open)
        self._open = None
