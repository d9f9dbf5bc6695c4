"""The lines that the TT compiler prints around the modules of a graph, in every form they have had.

It prints each stage of a graph as a module: a header with the name of the stage, the text of the
module, and since 2025-10-13 an END marker::

    2025-11-21 12:00:01.123 ( 12.3s) [  421D1300]  module_builder.cc:1278     1| MLIR Module ttir:
    module @SyncTensorsGraph.12 {
    ...
    ------------------ END OF MLIR MODULE ------------------

The names of the first stages were ``VHLO Module:`` until 2025-10-22, and are ``MLIR Module vhlo:``
since. ``log`` finds these lines, and ``programs`` puts the stages together.

Source: tt-xla, ``ModuleBuilder::printModule`` and its callers
(pjrt_implementation/src/api/module_builder/module_builder.cc), and its history.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import Final, NamedTuple

from pytest_graphbreak.layers.tt.programs import COMPLETE, FIRST
from pytest_graphbreak.text import prefixes
from pytest_graphbreak.text.prefixes import ANSI

END: Final = "------------------ END OF MLIR MODULE ------------------"
"""The raw text after each module, since 2025-10-13; never in TTXLA_LOGGER_FILE."""

FILE: Final = "module_builder.cc:"
"""The part of the preamble of every header, old and new, that finds them all."""

BARE: Final = "MLIR Module "
"""A header whose preamble was cut away (by ``cut``, ``sed``, a log collector)."""

_ENDS = r":(?=[\s\x1b]|\Z)"
_LINE: Final = re.compile(
    r"module_builder\.cc:\d+ +(\w+)\| (?:\.   )*"
    r"(?:(?:MLIR Module (?P<new>\w+)|(?P<old>VHLO|SHLO|TTIR|TTNN) Module(?P<after> after \w+)?"
    r"(?: StableHLO pipeline)?)" + _ENDS + r")?",
    re.A,
)
"""A line of the plugin from its file on: its level, and of a header the name of the stage.

Headers of today and of before 2025-10-22, and a line that is no header; ``.   `` is loguru's
indentation::

    module_builder.cc:1278     1| MLIR Module ttir:
    module_builder.cc:1278     1| SHLO Module after frontend StableHLO pipeline:
    module_builder.cc:1278   ERR| .   Failed to run stablehlo pipeline
"""
_BARE_LINE: Final = re.compile(r"MLIR Module (\w+)" + _ENDS, re.A)
"""A header of today without its preamble: ``MLIR Module ttir:``."""
_BARE_AFTER: Final = (
    "| ",  # docker compose: worker-1  | MLIR Module ttir:
    ">:",  # mpirun: [1,0]<stderr>:MLIR Module ttir:
    "]:",  # torchrun: [rank0]:MLIR Module ttir:
    "Z ",  # a CI's time stamp: 2025-11-21T12:00:01Z MLIR Module ttir:
    "m",  # the end of a colour
)
"""How the text ends that may be before such a header in its line; other text is a sentence."""
_OLD: Final = {  # the stages by their names in headers until 2025-10-22
    ("VHLO", ""): FIRST,
    ("SHLO", ""): "shlo",
    ("SHLO", " after frontend"): "shlo_frontend",
    ("SHLO", " after compiler"): "shlo_compiler",
    ("TTIR", ""): "ttir",
    ("TTNN", ""): COMPLETE,
}


class Message(NamedTuple):
    """A line of the plugin's logger."""

    level: str
    """A number, or ``ERR``."""
    stage: str
    """The stage that a header names; empty for a line that is no whole header."""
    text: str


def read_message(line: str, at: int) -> Message | None:
    """Return the loguru line whose file name begins at ``at``; None if it is not such a line."""
    match = _LINE.match(line, at)
    if match is None:
        return None
    level = match[1]
    if match["new"]:
        return Message(level, match["new"], line[match.start("new") :])
    if match["old"]:
        stage = _OLD.get((match["old"], match["after"] or ""), "")
        return Message(level, stage, line[match.start("old") :])
    return Message(level, "", line[match.end() :])


def is_torn(message: str) -> bool:
    """Return whether a message is a part of a header that another writer cut in two.

    It is the beginning of one (``MLIR Mod``), or goes on as one does (``MLIR xyz``).
    """
    text = message[: len(BARE)].partition("\n")[0].rstrip("\r")
    return text.startswith(BARE[:4]) or (len(text) > 1 and BARE.startswith(text))


def bare_header(line: str, at: int) -> str:
    """Return the stage of a header that has lost its preamble, by the text at ``at``.

    Empty for other such text: ``see MLIR Module ttir: it has ...``.
    """
    before = line[max(0, at - 8) : at]
    if before and not before.endswith(_BARE_AFTER):
        return ""
    match = _BARE_LINE.match(line, at)
    return match[1] if match else ""


_NAME: Final = re.compile(r'"[^"\r\n]{0,256}"|[^\s{(]{1,256}', re.A)
"""The name after ``module @``, in quotes or up to what follows it."""


def module_name(text: str) -> str:
    """Return the name of the first named module in a text (``SyncTensorsGraph.12``)."""
    at = text.find("module @")
    match = _NAME.match(text, at + len("module @")) if at >= 0 else None
    return prefixes.text(match[0]).strip('"') if match else ""


_STAMP: Final = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) \(", re.A)
"""The time at which a header was logged: ``2025-11-21 12:00:01.123 (``."""


def logged_at(header: str) -> float | None:
    """Return the time of a header in seconds of no time zone; None if it has none."""
    stamped = _STAMP.search(ANSI.sub("", header))
    try:
        stamp = datetime.fromisoformat(stamped[1]) if stamped else None
    except ValueError:
        return None
    return stamp.replace(tzinfo=timezone.utc).timestamp() if stamp else None


REMEMBERED: Final = 200_000
"""The most lines that are remembered, by hash: about 20,000 graphs. Later ones count as new."""


class Copies:
    """The header lines of one log that are there twice.

    If standard error and ``TTXLA_LOGGER_FILE`` go to one file, each header is there twice, one
    after the other: loguru writes to both under one lock. If one file was appended to the other,
    they are in different places, and nothing tells them from headers of graphs that are equal.
    """

    def __init__(self) -> None:
        self.count = 0
        """The lines that followed their equals at once: copies."""
        self.unsure = 0
        """The lines that came later: two graphs may print equal lines in one millisecond."""
        self._seen: set[int] = set()
        """The header lines so far, by hash."""
        self._last = 0
        """The hash of the line before, if that was a header; else 0."""

    def break_sequence(self) -> None:
        """Note that something else was printed: the next line does not follow the last."""
        self._last = 0

    def is_copy(self, rank: str, line: str) -> bool:
        """Return whether this header is a copy; False without a time stamp to compare."""
        words = ANSI.sub("", line).rstrip()
        stamp = _STAMP.search(words)
        if stamp is None:
            return False
        key = hash((rank, words[stamp.start() :]))
        follows, self._last = key == self._last, key
        if follows:
            self.count += 1
            return True
        self.unsure += key in self._seen
        if len(self._seen) < REMEMBERED:
            self._seen.add(key)
        return False
