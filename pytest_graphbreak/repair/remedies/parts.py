"""Remedies for a sequence that is split by lengths: one part, under a mask."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_graphbreak.model.record import Break
from pytest_graphbreak.repair.patch import Rewrite, SourcePatch
from pytest_graphbreak.repair.remedies.breaks import SCALARS, SHAPES, by_values
from pytest_graphbreak.repair.trial import Trial


def propose(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose attention to the whole sequence where it is split by lengths, in all such places.

    The lengths come from operators whose sizes depend on values. One goes into the graph only with
    the other, so it is one patch, for whichever of these breaks comes first.
    """
    if not by_values(item):
        return
    places = [one.where for one in (item, *trial.record.breaks) if _splits(one)]
    if not places:
        return
    first = {(one.file, one.function): one for one in reversed(places)}
    yield SourcePatch(
        "the parts of the sequence became one, attended to under a mask",
        (*(Rewrite("one_part", one) for one in first.values()), SHAPES, SCALARS),
        note="the scores of the whole sequence are worked out, not only those within a part; "
        "an output that is not finite raises RuntimeError",
    )


def _splits(item: Break) -> bool:
    return "torch.split(" in item.where.code and ".tolist()" in item.where.code
