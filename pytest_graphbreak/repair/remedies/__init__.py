"""The remedies, each in a file of its own, in the order in which they are worth trying.

A remedy proposes patches: ``propose(item, trial)`` for a break, ``recompiles(trial)`` for code
that is compiled again. A run decides whether a patch repairs it and whether the results stay the
same. A patch is what an engineer would merge: a few lines, no helper, nothing that raises.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_graphbreak.model.record import Break
from pytest_graphbreak.repair.patch import SourcePatch
from pytest_graphbreak.repair.remedies import cond, enable, settings, sizes, where
from pytest_graphbreak.repair.trial import Trial

_FOR_BREAKS: Final = (enable.propose, where.propose, cond.propose, settings.propose)
_FOR_RECOMPILES: Final = (settings.recompiles, sizes.recompiles)


def for_break(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose patches for a break, the one that changes least first."""
    for propose in _FOR_BREAKS:
        yield from propose(item, trial)


def for_recompiles(trial: Trial) -> Iterator[SourcePatch]:
    """Propose patches for the recompiles of a run."""
    for propose in _FOR_RECOMPILES:
        yield from propose(trial)
