"""What torch_xla says of its compilations in a log (``PT_XLA_DEBUG_LEVEL``).

The blocks are read by the same reader as the live observer's debug file; here
they are found among everything else, rank by rank.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pytest_graphbreak.layers.xla.reports import Reader, Report
from pytest_graphbreak.model.record import NOWHERE, Frame
from pytest_graphbreak.model.sources import Sources
from pytest_graphbreak.model.stacks import Line
from pytest_graphbreak.text import lines
from pytest_graphbreak.text.blocks import Block
from pytest_graphbreak.text.scan import Group, Needle

_ANALYSIS: Final = b"Compilation Analysis: "
_HASH: Final = b"Computation hash: "

_SAID: Final = (
    ("dynamo processing input graphs", "pending", "an input was still waiting to be computed"),
    ("dynamo is compiling", "fx", ""),
    ("dynamo is executing", "fx", ""),
    ("trying to access tensor value", "access", "a value was read before torch_xla.sync"),
    ("clear the pending graph", "pending", "work was pending before torch_xla.compile"),
    ("torch_xla.compile", "sync", "torch_xla.compile cut the graph"),
    ("parallel loader", "sync", "the parallel loader synced at the end of a step"),
    ("profiler", "sync", "a profiler step ended"),
    ("torch_xla.sync", "sync", "torch_xla.sync was called"),
)
"""torch_xla's words (torch_xla/csrc/debug_util.cpp), the cause they stand for, and ours."""

_BY_FRAME: Final = (
    ("partition_fx_graph_for_cpu_fallback", "split", "an op of the FX graph does not run on XLA"),
    ("optimized_mod", "pending", "an input was still waiting to be computed"),
)
"""Frames that tell more than torch_xla's words, which then speak of a value that was read."""

UNSEEN: Final = "compiled in a thread without Python frames (autograd)"


class XlaLines:
    """Finds the blocks and gives each compilation to ``take(rank, report)``."""

    def __init__(self, take: Callable[[str, Report], None]) -> None:
        self._take = take
        self._readers: dict[str, Reader] = {}

    def group(self) -> Group:
        """What to search for."""
        return Group([Needle(_ANALYSIS, self._analysis), Needle(_HASH, self._hash)], _ANALYSIS)

    def _analysis(self, block: Block, at: int) -> int:
        """Lines of a block that stand together."""
        data = block.data
        ahead = _ahead(block, at)
        if ahead is None:
            return at + 1
        rank = lines.rank_name(ahead)
        said = []
        while ahead is not None and lines.rank_name(ahead) == rank:
            end = lines.finish(data, at, block.limit)
            said.append(lines.text(bytes(data[at:end])))
            at = lines.following(data, end, block.end, _ANALYSIS)
            ahead = _ahead(block, at) if at >= 0 else None
        self._feed(rank, said)
        return end

    def _hash(self, block: Block, at: int) -> int:
        ahead = _ahead(block, at)
        end = lines.finish(block.data, at, block.limit)
        if ahead is not None:
            self._feed(lines.rank_name(ahead), [lines.text(bytes(block.data[at:end]))])
        return end

    def _feed(self, rank: str, said: list[str]) -> None:
        reader = self._readers.setdefault(rank, Reader())
        for report in reader.feed("".join(f"{line}\n" for line in said)):
            self._take(rank, report)


def _ahead(block: Block, at: int) -> bytes | None:
    """What stands before a mark in its line; None if those are words and not a prefix."""
    begin = lines.begin(block.data, at)
    ahead = bytes(block.data[begin:at])
    if len(ahead) > lines.BEFORE or ahead.endswith((b"Post ", b"'", b'"', b"`")):
        return None
    return ahead


def cause(report: Report) -> tuple[str, str]:
    """The cause of a compilation, and the evidence in words."""
    if not report.said:
        return "backward", UNSEEN
    names = {name for _, _, name in report.frames}
    for name, found, why in _BY_FRAME:
        if name in names and "dynamo is compiling" not in report.said:
            return found, why
    for said, found, why in _SAID:
        if said in report.said:
            if found == "fx" and any("backward" in name for name in names):
                return "backward", ""
            return found, why
    return "other", report.said


def where(report: Report, sources: Sources) -> Frame:
    """The user's line that it was compiled for."""
    frames = [Line(file, line, name) for file, line, name in reversed(report.frames)]
    user = [frame for frame in frames if sources.is_user(frame.file)]
    return sources.frame(*user[-1]) if user else NOWHERE
