"""The remedies, each in a file of its own, in the order in which they are worth trying.

A remedy proposes patches: ``propose(item, trial)`` for a break, ``recompiles(trial)`` for code
that is compiled again. A run decides whether a patch repairs it and whether the results stay the
same. To add one, write its file and its line here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pytest_graphbreak.model.record import Break
from pytest_graphbreak.repair.patch import SourcePatch
from pytest_graphbreak.repair.remedies import cond, enable, settings, sizes, where
from pytest_graphbreak.repair.trial import Trial

_FOR_BREAKS: Final = (
    settings.propose,
    where.propose,
    cond.propose,
    enable.propose,
    enable.propose_uncompiled,
)
_FOR_RECOMPILES: Final = (sizes.recompiles,)


def for_break(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose patches for a break, the one that changes least first."""
    for propose in _FOR_BREAKS:
        yield from propose(item, trial)


def for_recompiles(trial: Trial) -> Iterator[SourcePatch]:
    """Propose patches for the recompiles of a run."""
    for propose in _FOR_RECOMPILES:
        yield from propose(trial)


def for_settings(trial: Trial) -> Sequence[SourcePatch]:
    """Return the settings of torch that may help a program, a patch each, to be tried together."""
    return settings.together(trial)
