"""Remedies for numbers that a tensor holds, where it can stay a tensor: parts and rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_graphbreak.model.record import Break
from pytest_graphbreak.repair.patch import Rewrite, SourcePatch
from pytest_graphbreak.repair.remedies.breaks import SCALARS, SHAPES, by_values
from pytest_graphbreak.repair.trial import Trial

_KINDS: Final = {
    "one_part": "the parts of the sequence became one, attended to under a mask",
    "all_rows": "the loop over rows became indices of all rows",
}
_COST: Final = (
    "the scores of the whole sequence are worked out, not only those within a part; "
    "an output that is not finite raises RuntimeError"
)


def propose(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose that parts of a sequence and rows of a table are computed at once, in all places.

    Their numbers come from operators whose sizes depend on values. One goes into the graph only
    with the others, so it is one patch, for whichever of these breaks comes first.
    """
    if not by_values(item):
        return
    found: dict[tuple[str, str, str], Rewrite] = {}
    for one in (item, *trial.record.breaks):
        for kind in _KINDS:
            edit = Rewrite(kind, one.where)
            if ".tolist()" in one.where.code and _writable(edit, trial):
                found[one.where.key] = edit
    kinds = {edit.kind for edit in found.values()}
    if kinds:
        title = "; ".join(text for kind, text in _KINDS.items() if kind in kinds)
        note = _COST if "one_part" in kinds else ""
        yield SourcePatch(title, (*found.values(), SHAPES, SCALARS), note=note)


def _writable(edit: Rewrite, trial: Trial) -> bool:
    from pytest_graphbreak.repair.rewrite import apply
    from pytest_graphbreak.repair.rewrite.scope import UnfitError

    try:
        return apply(trial.source(edit.where), edit.kind, edit.where) is not None
    except UnfitError:
        return False
