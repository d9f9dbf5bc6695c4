"""Remedies for loops: one over all indices, and ``torch.while_loop``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from pytest_graphbreak import advice
from pytest_graphbreak.model.record import Break
from pytest_graphbreak.repair.patch import Edit, Rewrite, SourcePatch
from pytest_graphbreak.repair.remedies import recompiles
from pytest_graphbreak.repair.remedies.breaks import OTHER_ERROR, SCALARS, SHAPES, branching
from pytest_graphbreak.repair.remedies.by_kind import by_kind
from pytest_graphbreak.repair.trial import Trial

_ON_THE_HOST: Final = "torch_xla runs it on the host, with a graph or more for each round"
"""torch_xla 2.9 has no kernel for it in compiled code, and PyTorch's own reads the test each time.

``torch_xla/experimental/fori_loop.py`` registers one, which refuses a loop whose test holds a
number: it becomes a parameter of the test alone.
"""


def over_indices(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose to loop over all indices where a tensor chose them, as in a mixture of experts."""
    if ".nonzero(" in item.where.code and "dynamic shape" in item.reason.lower():
        yield SourcePatch(
            "the loop goes over all indices, and capture_dynamic_output_shape_ops",
            (by_kind("every_index", item.where), SHAPES),
            note="what is selected for an index may be empty, and is computed all the same",
        )


def as_operator(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose ``torch.while_loop``; torch_xla is known to gain nothing from it."""
    if not branching(item):
        return
    from pytest_graphbreak.repair.rewrite.leaving import raises
    from pytest_graphbreak.repair.rewrite.loops import helpers
    from pytest_graphbreak.repair.rewrite.writes import written_in_loop

    here, title = item.where, "the loop became torch.while_loop"
    if trial.record.graphs.get("xla"):
        yield SourcePatch(title, (by_kind("while_loop", here),), unfit=_ON_THE_HOST)
        return
    source = trial.source(here)
    lost, kind = [], ""
    if written := written_in_loop(source, here):
        kind, title = "quiet_", f"{title} that writes nothing"
        lost.append(f"`{written[0]}` no longer happens in compiled code")
    if raises(source, here):
        lost.append(f"the loop {OTHER_ERROR}")
    called = [by_kind("transposed", one) for one in helpers(source, here)]
    plain, trained = (by_kind(f"{kind}{one}_loop", here) for one in ("while", "trained"))
    for loop in (trained,) if trial.trained else (plain, trained):
        name = title if loop is plain else f"{title} that keeps its gradient"
        patch = SourcePatch(name, (loop, *called), "; ".join(lost))
        if not _reads_later(loop, trial):
            yield patch
        name = f"{name}, its numbers nodes of the graph"
        patch = replace(patch, title=name, edits=(*patch.edits, SCALARS))
        yield patch
    if trial.trained and (numbers := recompiles.tensors(trial)):
        # torch 2.13 has no gradient of a loop that reads a number which is an input of the graph.
        name = f"{name}; Python numbers that vary became tensors"
        yield replace(patch, title=name, edits=(*patch.edits, *numbers))


def over_read(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose ``torch.while_loop`` for loops over a number that is read where a graph breaks.

    Unrolled, they are compiled for each number.
    """
    if advice.name(item) != "item":
        return
    from pytest_graphbreak.repair.rewrite.loops import helpers
    from pytest_graphbreak.repair.rewrite.rounds import over_numbers

    source = trial.source(item.where)
    loops = over_numbers(source, item.where) if source else []
    if not loops:
        return
    title = "the loop over a number that is read became torch.while_loop"
    unfit = _ON_THE_HOST if trial.record.graphs.get("xla") else ""
    called = [by_kind("transposed", one) for loop in loops for one in helpers(source, loop)]
    for kind in ("trained_loop",) if trial.trained else ("while_loop", "trained_loop"):
        name = title if kind == "while_loop" else f"{title} that keeps its gradient"
        edits: list[Edit] = [*(by_kind(kind, loop) for loop in loops), *called, SCALARS]
        yield SourcePatch(name, tuple(edits), unfit=unfit)


def _reads_later(loop: Rewrite, trial: Trial) -> bool:
    """Return whether a number of the loop is read after it, so that ``.item()`` is added."""
    from pytest_graphbreak.repair.rewrite.doubles import HELPER
    from pytest_graphbreak.repair.rewrite.scope import UnfitError

    source = trial.source(loop.where)
    try:
        changed = loop.change(source, loop.where) or ""
    except UnfitError:
        return False
    own = changed.count(HELPER[-1].strip())  # only beside tensors without dimensions
    return changed.count(".item()") - own > source.count(".item()")
