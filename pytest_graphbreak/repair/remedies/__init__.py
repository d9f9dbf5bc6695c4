"""The remedies for a graph break, in the order in which they are worth trying.

A remedy proposes patches. A run decides whether a patch repairs the break and whether the results
stay the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pytest_graphbreak.model.record import Break, Frame
from pytest_graphbreak.repair.patch import SourcePatch
from pytest_graphbreak.repair.remedies import (
    breaks,
    calls,
    draws,
    loops,
    numbers,
    parts,
    recompiles,
    writing,
)
from pytest_graphbreak.repair.trial import Trial

_IN_TURN = (
    writing.later,
    draws.propose,
    loops.over_indices,
    breaks.masked,
    parts.propose,
    breaks.flags,
    breaks.indices,
    loops.over_read,
    numbers.propose,
    breaks.switches,
    breaks.branches,
    loops.as_operator,
    breaks.kept,
    numbers.other_reads,
    calls.propose,
    writing.output,
    calls.opaque,
    breaks.uncompiled,
)


def for_break(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose patches for a break, the one that changes least first."""
    if item.layer == "xla":
        yield from breaks.cpu_tensors(item)
        return
    for propose in _IN_TURN:
        yield from propose(item, trial)


def for_fixed_sizes(lines: Iterable[Frame]) -> Iterator[SourcePatch]:
    """Propose patches for lines that need a size as a number, so that each is compiled."""
    yield from recompiles.for_fixed_sizes(lines)


def for_other_sizes(trial: Trial) -> Iterator[SourcePatch]:
    """Propose patches for inputs of other sizes for which a program was compiled again."""
    yield from recompiles.for_other_sizes(trial)


def for_recompiles(trial: Trial) -> Iterator[SourcePatch]:
    """Propose patches for the recompiles of a run."""
    yield from recompiles.propose(trial)
