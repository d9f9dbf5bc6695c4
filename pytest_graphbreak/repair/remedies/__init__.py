"""The remedies for a graph break, in the order in which they are worth trying.

A remedy proposes patches. A run decides whether a patch repairs the break and whether the results
stay the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_graphbreak.model.record import Break
from pytest_graphbreak.repair.patch import SourcePatch
from pytest_graphbreak.repair.remedies import (
    breaks,
    calls,
    loops,
    numbers,
    recompiles,
    settings,
    writing,
)
from pytest_graphbreak.repair.trial import Trial

_IN_TURN = (
    writing.later,
    loops.over_indices,
    breaks.masked,
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


def for_recompiles(trial: Trial) -> Iterator[SourcePatch]:
    """Propose patches for the recompiles of a run."""
    yield from recompiles.propose(trial)


def for_settings(trial: Trial) -> Sequence[SourcePatch]:
    """Return the settings of torch that may help a program, a patch each, to be tried together."""
    return settings.propose(trial)
