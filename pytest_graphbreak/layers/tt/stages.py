"""The stages that the TT compiler prints for one graph, in every form they have had.

Source: tt-xla, ``ModuleBuilder::printModule`` and its callers
(pjrt_implementation/src/api/module_builder/module_builder.cc), and its history:
``VHLO Module:`` until 2025-10-22, ``MLIR Module vhlo:`` since. One graph has had
6, 7, 8 and 9 stages; nothing here counts on a number.
"""

from __future__ import annotations

import re
from typing import Final

FIRST: Final = "vhlo"
"""Every compilation begins with this stage: one of them is one graph attempted."""

COMPLETE: Final = "ttnn"
"""With this stage printed, the compiler has lowered the graph."""

LOWERED: Final = frozenset((COMPLETE, "ttnn_runtime"))
"""The stages of a graph that was lowered; the header of one may be damaged."""

ORDER: Final = {
    name: index
    for index, name in enumerate(
        (
            FIRST,
            "shlo",
            "shlo_frontend",
            "shlo_compiler",
            "shlo_set_mesh_attr",
            "shlo_compiler_cleaned",
            "ttir",
            COMPLETE,
            "ttnn_runtime",
        )
    )
}

END: Final = b"------------------ END OF MLIR MODULE ------------------"
"""Printed raw after the text of each module, since 2025-10-13; never in TTXLA_LOGGER_FILE."""

FILE: Final = b"module_builder.cc:"
"""In the preamble of every header, old and new: the longest needle that finds them all."""

BARE: Final = b"MLIR Module "
"""A header whose preamble was cut away (by ``cut``, ``sed``, a log collector)."""

_ENDS = rb":(?=[\s\x1b]|\Z)"
_LINE: Final = re.compile(
    rb"module_builder\.cc:\d+ +(\w+)\| (?:\.   )*"
    rb"(?:(?:MLIR Module (?P<new>\w+)|(?P<old>VHLO|SHLO|TTIR|TTNN) Module(?P<after> after \w+)?"
    rb"(?: StableHLO pipeline)?)" + _ENDS + rb")?"
)
_BARE_LINE: Final = re.compile(rb"MLIR Module (\w+)" + _ENDS)
_OLD: Final = {
    (b"VHLO", b""): FIRST,
    (b"SHLO", b""): "shlo",
    (b"SHLO", b" after frontend"): "shlo_frontend",
    (b"SHLO", b" after compiler"): "shlo_compiler",
    (b"TTIR", b""): "ttir",
    (b"TTNN", b""): COMPLETE,
}


def header(data: bytearray, at: int, limit: int) -> tuple[str, str, int] | None:
    """What the loguru line says whose file name begins at ``at``.

    Level, stage (empty if the line is not the header of a module), and where
    the message begins; None if this is not such a line.
    """
    found = _LINE.match(data, at, limit)
    if found is None:
        return None
    level = found[1].decode()
    if found["new"]:
        return level, found["new"].decode(), found.start("new")
    if found["old"]:
        return level, _OLD.get((found["old"], found["after"] or b""), ""), found.start("old")
    return level, "", found.end()


def is_torn(data: bytearray, message: int, limit: int) -> bool:
    """Whether a message is a part of a header that another writer cut in two."""
    text = bytes(data[message : min(message + len(BARE), limit)]).partition(b"\n")[0].rstrip(b"\r")
    return text.startswith(BARE[:4]) or (len(text) > 1 and BARE.startswith(text))


def bare_header(data: bytearray, at: int, limit: int) -> str:
    """The stage of a header that has lost its preamble; empty for other text with these words."""
    before = bytes(data[max(0, at - 8) : at])
    if before and not before.endswith((b"\n", b"| ", b">:", b"]:", b"Z ", b"m")):
        return ""
    found = _BARE_LINE.match(data, at, limit)
    return found[1].decode() if found else ""


def follows(stage: str, last: str) -> bool:
    """Whether ``stage`` can come after ``last`` in one compilation; unknown names can."""
    if stage in ORDER and last in ORDER:
        return ORDER[stage] > ORDER[last]
    return stage != FIRST
