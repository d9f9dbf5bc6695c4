"""What torch_xla says of its compilations in a log (``PT_XLA_DEBUG_LEVEL``).

The blocks are read by the same reader as the live observer's debug file; here
they are found among everything else, rank by rank.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pytest_graphbreak.layers.xla.events import Event, LoweringContext, without_hooks
from pytest_graphbreak.layers.xla.fx import FxGraph
from pytest_graphbreak.layers.xla.reports import CompileReport, Reader
from pytest_graphbreak.text import lines
from pytest_graphbreak.text.blocks import Block
from pytest_graphbreak.text.scan import Group, Needle

_ANALYSIS: Final = b"Compilation Analysis: "
_HASH: Final = b"Computation hash: "


class XlaLines:
    """Finds the blocks and gives each compilation to ``take(rank, report)``."""

    def __init__(self, take: Callable[[str, CompileReport], None]) -> None:
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


def event(report: CompileReport, graph: FxGraph) -> Event:
    """A compilation as the sensors would note it. ``graph``: what Dynamo made last."""
    report.frames = without_hooks(report.frames)
    # A thread without Python frames is autograd's.
    backward = not report.frames and not report.said
    return Event(report, LoweringContext("backward") if backward else None, lowering=graph)
