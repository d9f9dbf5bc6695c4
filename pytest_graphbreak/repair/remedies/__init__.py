"""What may mend a break, in the order in which it is worth trying.

One module a family of remedies, each with ``propose(break, trial)``. A remedy
proposes; whether it mends, and whether the results stay, is for a run to say.
"""

from __future__ import annotations

from collections.abc import Iterator

from pytest_graphbreak.model.record import Break
from pytest_graphbreak.repair.patch import SourcePatch
from pytest_graphbreak.repair.remedies import (
    branches,
    calls,
    configs,
    devices,
    leaving,
    logs,
    loops,
    numbers,
    opaque,
    recompiles,
)
from pytest_graphbreak.repair.trial import Trial

_IN_TURN = (
    loops.propose,
    numbers.propose,
    configs.propose,
    branches.propose,
    numbers.otherwise,
    calls.propose,
    logs.propose,
    opaque.propose,
    leaving.propose,
)


def for_break(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Patches for a break, the gentlest first."""
    if item.layer == "xla":
        yield from devices.propose(item, trial)
        return
    for propose in _IN_TURN:
        yield from propose(item, trial)


def for_recompiles(trial: Trial) -> Iterator[SourcePatch]:
    """Patches for the recompiles of a run."""
    yield from recompiles.propose(trial)
