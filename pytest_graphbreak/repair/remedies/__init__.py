"""The remedies, in the order in which they are worth trying.

A remedy proposes patches: ``propose(item, trial)`` for a break, ``recompiles(trial)`` for code
that is compiled again. A run decides whether a patch repairs it and whether the results stay the
same. A patch is what an engineer would merge: a few lines, no helper, nothing that raises.
"""

from __future__ import annotations

from collections.abc import Iterator

from pytest_graphbreak.model.items import Break
from pytest_graphbreak.repair.patches import SourcePatch
from pytest_graphbreak.repair.remedies import branches, compiling, enable
from pytest_graphbreak.repair.trial import Trial


def for_break(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose patches for a break, the one that changes least first."""
    for remedy in (enable, branches, compiling):
        yield from remedy.propose(item, trial)


for_recompiles = compiling.recompiles
